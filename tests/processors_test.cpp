// The quotas of control groups, on made files as systems have them.

#include "base/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "scratch_folder.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

class Quota : public ScratchFolder {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  // mountinfo with a line that is none of ours before it.
  void mount(const std::string& lines) {
    write("proc/self/mountinfo", "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n" + lines);
  }
  std::optional<double> quota() const { return processor_quota(folder_); }
};

constexpr const char* kV2 =
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(Quota, OfVersion2InAContainer) {
  mount(kV2);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(Quota, OfVersion2TheLeastOfTheGroupAndThoseAboveIt) {
  mount(kV2);
  write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "20000 20000\n");
  EXPECT_EQ(quota(), 1);
  write("sys/fs/cgroup/other.slice/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(Quota, OfVersion1) {
  mount(
      "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
  write("proc/self/cgroup", "4:memory:/a\n3:cpuset:/b\n2:cpu,cpuacct:/batch/job\n1:name=systemd:/\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
}

// The group is named as the host knows it, and the mount shows it as the top.
TEST_F(Quota, OfVersion1InAContainer) {
  mount("32 31 0:29 /docker/4f1e /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  write("proc/self/cgroup", "2:cpu:/docker/4f1e\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.5);
  write("proc/self/cgroup", "2:cpu:/docker/4f1e/inner\n");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "10000\n");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.1);
  write("proc/self/cgroup", "2:cpu:/\n");  // with a name space of its own
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(Quota, OfFilesThatSayNothing) {
  EXPECT_EQ(quota(), std::nullopt);  // none at all
  mount(kV2);
  EXPECT_EQ(quota(), std::nullopt);
  write("proc/self/cgroup", "0::/a\nnonsense\n::\n");
  for (const char* const text : {"", "0 100000", "-1 100000", "50000", "50000 0", "words and more"}) {
    write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
  write("proc/self/mountinfo", "- - -\n\n30 22 0:26 / /sys/fs/cgroup\n30 22 0:26 / - cgroup2\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST(Processors, AtLeastOne) { EXPECT_GE(available_processors(), 1); }

}  // namespace
}  // namespace systole
