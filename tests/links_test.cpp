// Links and names that lead out of a folder of weights: refused unless asked for, by what was opened. Links
// inside the folder, a folder that is a link itself and the cache of Hugging Face work.

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/beneath.h"
#include "error_check.h"
#include "scratch_folder.h"
#include "systole/io.h"
#include "systole/io/pretrained.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

class Links : public ScratchFolder {
 protected:
  Links() {
    fs::create_directories(model_);
    fs::create_directories(outside_);
    save(outside_ / "secret.safetensors", "b");
    save(model_ / "1.safetensors", "a");
  }

  static void save(const fs::path& file, const std::string& name) {
    io::save_safetensors(file, std::vector<io::NamedArray>{{name, Literal::scalar(1.0f)}});
  }
  // An index whose second shard is `2.safetensors`.
  static void write_index(const fs::path& folder) {
    std::ofstream(folder / "model.safetensors.index.json")
        << R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
  }
  std::string refused(const fs::path& place) {
    const std::string message = error_of(ErrorKind::kUnsupported, [&] { io::SafetensorsReader{place}; });
    EXPECT_NE(message.find("--follow-links"), message.npos) << message;
    return message;
  }

  const fs::path model_ = folder_ / "model", outside_ = folder_ / "outside";
  const fs::path second_ = model_ / "2.safetensors";
};

TEST_F(Links, AShardThatIsALinkOutOfTheFolderIsRefusedUnlessAskedFor) {
  write_index(model_);
  for (const fs::path target : {fs::path("../outside/secret.safetensors"), outside_ / "secret.safetensors"}) {
    fs::remove(second_);
    fs::create_symlink(target, second_);
    EXPECT_NE(refused(model_).find("2.safetensors: a link that leads out of its folder"), std::string::npos);
    refused(model_ / "model.safetensors.index.json");
    error_of(ErrorKind::kUnsupported, [&] { io::load_safetensors(model_); });
    EXPECT_EQ(io::SafetensorsReader(model_, {.follow_links = true}).size(), 2u);
    EXPECT_EQ(io::load_safetensors(model_, {.follow_links = true}).size(), 2u);
  }
}

TEST_F(Links, AChainThatLeavesTheFolderInItsMiddleIsRefused) {
  write_index(model_);
  fs::create_directory_symlink(outside_, model_ / "parts");  // a parent folder that is a link
  fs::create_symlink("parts/secret.safetensors", second_);
  refused(model_);
  fs::remove(second_);
  // Out and in again: what is between belongs to others.
  fs::create_symlink("../model/1.safetensors", second_);
  refused(model_);
  fs::remove(second_);
  fs::create_symlink("/proc/self/cwd/x", second_);
  refused(model_);
}

TEST_F(Links, AHardLinkIsRefusedUnlessAskedFor) {
  write_index(model_);
  fs::create_hard_link(outside_ / "secret.safetensors", second_);
  EXPECT_NE(refused(model_).find("hard link"), std::string::npos);
  EXPECT_EQ(io::SafetensorsReader(model_, {.follow_links = true}).size(), 2u);
}

TEST_F(Links, LinksThatStayInTheFolderAndAFolderThatIsALinkWork) {
  write_index(model_);
  fs::create_directory(model_ / "parts");
  save(model_ / "parts/b.safetensors", "b");
  fs::create_symlink("parts/b.safetensors", second_);
  fs::create_directory_symlink(model_, folder_ / "by-link");
  EXPECT_EQ(io::SafetensorsReader(model_).size(), 2u);
  EXPECT_EQ(io::SafetensorsReader(folder_ / "by-link").size(), 2u);
  // A file that the user names is theirs to choose.
  fs::create_symlink(outside_ / "secret.safetensors", folder_ / "mine.safetensors");
  EXPECT_EQ(io::SafetensorsReader(folder_ / "mine.safetensors").size(), 1u);
}

TEST_F(Links, TheModelOrIndexOfAFolderFollowsTheSameRule) {
  fs::create_symlink("../outside/secret.safetensors", model_ / "model.safetensors");
  refused(model_);
  EXPECT_EQ(io::SafetensorsReader(model_, {.follow_links = true}).size(), 1u);
  fs::remove(model_ / "model.safetensors");
  fs::create_symlink("1.safetensors", model_ / "model.safetensors");
  EXPECT_EQ(io::SafetensorsReader(model_).size(), 1u);
  write_index(outside_);
  fs::create_symlink("../outside/model.safetensors.index.json", model_ / "model.safetensors.index.json");
  refused(model_);
}

// models--gpt2/snapshots/REVISION/FILE -> ../../blobs/HASH, as huggingface_hub lays files down.
class HuggingFace : public Links {
 protected:
  HuggingFace() {
    fs::create_directories(blobs_);
    fs::create_directories(snapshot_);
    save(blobs_ / "6f1a", "a");
    save(blobs_ / "77cd", "b");
    std::ofstream(blobs_ / "0e11") << R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
    fs::create_symlink("../../blobs/0e11", snapshot_ / "model.safetensors.index.json");
    fs::create_symlink("../../blobs/6f1a", snapshot_ / "1.safetensors");
  }
  const fs::path root_ = folder_ / "hub/models--gpt2", blobs_ = root_ / "blobs",
                 snapshot_ = root_ / "snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e";
  const fs::path second_ = snapshot_ / "2.safetensors";
};

TEST_F(HuggingFace, LinksFromASnapshotToTheBlobsOfTheSameCacheAreFollowed) {
  fs::create_symlink("../../blobs/77cd", second_);
  EXPECT_EQ(io::SafetensorsReader(snapshot_).size(), 2u);
  EXPECT_EQ(io::SafetensorsReader(snapshot_ / "model.safetensors.index.json").size(), 2u);
  fs::create_directory_symlink(snapshot_, folder_ / "gpt2");
  EXPECT_EQ(io::SafetensorsReader(folder_ / "gpt2").size(), 2u);
  fs::create_symlink("../../blobs/77cd", snapshot_ / "model.safetensors");
  fs::remove(snapshot_ / "model.safetensors.index.json");
  EXPECT_EQ(io::SafetensorsReader(snapshot_).size(), 1u);
  // A part of the model in a folder of its own, one level deeper.
  fs::create_directory(snapshot_ / "unet");
  fs::create_symlink("../../../blobs/77cd", snapshot_ / "unet/model.safetensors");
  EXPECT_EQ(io::SafetensorsReader(snapshot_ / "unet").size(), 1u);
}

TEST_F(HuggingFace, OtherLinksOutOfASnapshotAreRefused) {
  const fs::path other = folder_ / "hub/models--other/blobs";
  fs::create_directories(other);
  save(other / "77cd", "b");
  fs::create_symlink(outside_ / "secret.safetensors", blobs_ / "link");
  fs::create_directory(blobs_ / "sub");
  save(blobs_ / "sub/77cd", "b");
  fs::create_directory_symlink(outside_, root_ / "blobs2");
  for (const std::string target :
       {"../../blobs/link", "../../blobs/sub/77cd", "../../../models--other/blobs/77cd",
        "../../blobs/../refs", "../../blobs2/secret.safetensors", "../../../../outside/secret.safetensors"}) {
    fs::remove(second_);
    fs::create_symlink(target, second_);
    refused(snapshot_);
  }
}

TEST_F(HuggingFace, LinksWithAnAbsoluteNameLeadToTheBlobsToo) {
  fs::create_symlink(blobs_ / "77cd", second_);
  EXPECT_EQ(io::SafetensorsReader(snapshot_).size(), 2u);
  // By another name of the cache, whose blobs are the same.
  fs::create_directory_symlink(folder_ / "hub", folder_ / "home");
  fs::remove(second_);
  fs::create_symlink(folder_ / "home/models--gpt2/blobs/77cd", second_);
  EXPECT_EQ(io::SafetensorsReader(snapshot_).size(), 2u);
}

// Where the cache lies is told by the folder that was opened, whatever its name leads to a moment later.
TEST_F(HuggingFace, AFolderThatIsExchangedMeanwhileBringsNoOtherCachesBlobs) {
  const fs::path caches[] = {folder_ / "hub/models--a", folder_ / "hub/models--b"};
  std::string snapshots[2];
  for (int i = 0; i < 2; ++i) {
    const fs::path snapshot = caches[i] / "snapshots/1";
    fs::create_directories(snapshot);
    fs::create_directories(caches[i] / "blobs");
    for (int k = 0; k < 2; ++k)
      std::ofstream(caches[i] / "blobs" / std::to_string(k)) << (k == i ? "right" : "wrong");
    fs::create_symlink("../../blobs/" + std::to_string(i), snapshot / "x");
    snapshots[i] = snapshot;
  }
  const std::string named = folder_ / "named", swap = folder_ / "swap";
  fs::create_symlink(snapshots[0], named);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 1;; i = 1 - i) {
      (void)!::symlink(snapshots[i].c_str(), swap.c_str());
      (void)::rename(swap.c_str(), named.c_str());
    }
  }
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto source = open_beneath(named, "x", LinkRule::inside);
    std::string text(source->size(), '\0');
    source->read(0, std::as_writable_bytes(std::span(text)));
    wrong += text == "right" ? 0 : 1;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(wrong, 0);
}

TEST_F(HuggingFace, BlobsThatAreALinkAreNoBlobsOfTheCache) {
  fs::create_symlink("../../blobs/77cd", second_);
  fs::rename(blobs_, folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", blobs_);
  refused(snapshot_);
}

// Files that a folder of weights has besides.
constexpr const char* kGpt2Config =
    R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"vocab_size":257,"n_positions":8})";
constexpr const char* kBesides[] = {"config.json", "encoder.json", "vocab.bpe", "tokenizer.json"};

void write_besides(const fs::path& folder) {
  io::Tokenizer::train("", 257).save(folder);
  std::ofstream(folder / "config.json") << kGpt2Config;
  std::ofstream(folder / "tokenizer.json")
      << R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE"}})";
}

// Reads what is read for the file of that name.
void read_beside(const std::string& name, const fs::path& folder, const io::ReadOptions& options = {}) {
  if (name == "config.json") {
    EXPECT_EQ(io::pretrained_family(folder, options), "gpt2");
    EXPECT_EQ(io::gpt2_options(folder, options).heads, 2);
    EXPECT_EQ(io::gpt2_options(folder / "weights.safetensors", options).width, 8);
  } else {
    EXPECT_EQ(io::Tokenizer::gpt2(folder, options).encode("ab").size(), 2u);
  }
}

TEST_F(Links, WhatStandsBesideWeightsFollowsTheSameRule) {
  write_besides(outside_);
  for (const char* const name : kBesides) {
    SCOPED_TRACE(name);
    const fs::path folder = folder_ / ("of " + std::string(name));
    fs::create_directory(folder);
    write_besides(folder);
    read_beside(name, folder);
    fs::rename(folder / name, folder / "other");
    fs::create_symlink("other", folder / name);
    read_beside(name, folder);
    for (const fs::path& target : {fs::path("../outside") / name, outside_ / name}) {
      fs::remove(folder / name);
      fs::create_symlink(target, folder / name);
      const std::string message = error_of(ErrorKind::kUnsupported, [&] { read_beside(name, folder); });
      EXPECT_NE(message.find(std::string(name) + ": a link that leads out of its folder"), message.npos)
          << message;
      EXPECT_NE(message.find("--follow-links"), message.npos) << message;
      read_beside(name, folder, {.follow_links = true});
    }
    fs::remove(folder / name);
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    for (const bool follows : {false, true}) {
      const std::string message =
          error_of(ErrorKind::kParse, [&] { read_beside(name, folder, {.follow_links = follows}); });
      EXPECT_NE(message.find("a regular file, got a pipe"), message.npos) << message;
    }
  }
  // One that is named itself is the user's to choose.
  fs::create_symlink(outside_ / "config.json", model_ / "config.json");
  EXPECT_EQ(io::pretrained_family(model_ / "config.json"), "gpt2");
  error_of(ErrorKind::kUnsupported, [&] { io::bert_options(model_); });
}

TEST_F(HuggingFace, WhatStandsBesideWeightsIsReadFromTheBlobs) {
  write_besides(blobs_);
  for (const char* const name : kBesides) {
    fs::rename(blobs_ / name, blobs_ / (std::string("ab") + name[0] + name[1]));
    fs::create_symlink("../../blobs/" + (std::string("ab") + name[0] + name[1]), snapshot_ / name);
  }
  for (const char* const name : kBesides) read_beside(name, snapshot_);
}

TEST_F(Links, APipeIsRefusedAtOnceAndNotWaitedFor) {
  write_index(model_);
  ASSERT_EQ(::mkfifo(second_.c_str(), 0600), 0);
  const std::string message = error_of(ErrorKind::kParse, [&] { io::SafetensorsReader{model_}; });
  EXPECT_NE(message.find("2.safetensors: not a file; expected a regular file, got a pipe"), message.npos)
      << message;
  error_of(ErrorKind::kParse, [&] { io::SafetensorsReader(model_, {.follow_links = true}); });
  ASSERT_EQ(::mkfifo((model_ / "model.safetensors").c_str(), 0600), 0);
  fs::remove(model_ / "model.safetensors.index.json");
  error_of(ErrorKind::kParse, [&] { io::SafetensorsReader{model_}; });
}

// The check is of the file that was opened: while another process exchanges a file for a link, either the
// file is read or the link is refused.
TEST_F(Links, AFileThatIsExchangedMeanwhileIsNeverReadFromOutside) {
  const std::string inside = "inside", secret = "secret";
  std::ofstream(model_ / "file") << inside;
  std::ofstream(outside_ / "file") << secret;
  fs::create_hard_link(model_ / "file", model_ / "x");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string x = model_ / "x", file = model_ / "file", swap = model_ / "swap";
    for (;;) {
      (void)!::symlink("../outside/file", swap.c_str());
      (void)::rename(swap.c_str(), x.c_str());
      (void)!::link(file.c_str(), swap.c_str());
      (void)::rename(swap.c_str(), x.c_str());
      ::unlink(swap.c_str());  // a rename onto another name of the same file does nothing
    }
  }
  int read = 0, refusals = 0, wrong = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int i = 0; i < 20'000 || ((read == 0 || refusals == 0) && std::chrono::steady_clock::now() < end); ++i)
    try {
      const auto source = open_beneath(model_, "x", LinkRule::inside);
      std::string text(source->size(), '\0');
      source->read(0, std::as_writable_bytes(std::span(text)));
      ++(text == inside ? read : wrong);
    } catch (const Error& error) {
      ++refusals;
    }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(read, 0);
  EXPECT_GT(refusals, 0);
}

}  // namespace
}  // namespace systole
