// The inner loop of a service: clients ask, a queue gathers, workers run a saved model on batches of up to
// kMost requests. Every batch size is compiled before the first request.
//
//   serve_threads [--requests 2000] [--clients 8] [--workers 2] [--device cpu]

#include <systole/systole.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <future>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "options.h"

namespace {

using namespace systole;
using Clock = std::chrono::steady_clock;
constexpr std::int64_t kMost = 16;

struct Request {
  std::vector<float> sample;  // 16 features
  std::promise<std::vector<float>> answer;
};

struct Queue {
  void add(Request request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(request));
    changed_.notify_one();
  }
  // All that waits, up to kMost; nothing when the queue is closed.
  std::vector<Request> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    std::vector<Request> taken;
    for (; !waiting_.empty() && std::ssize(taken) < kMost; waiting_.pop_front())
      taken.push_back(std::move(waiting_.front()));
    return taken;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  bool closed_ = false;
};

void work(const SavedModel& model, Queue& queue) {
  for (std::vector<Request> batch = queue.take(); !batch.empty(); batch = queue.take()) try {
      std::vector<float> x;
      for (const Request& request : batch) x.insert(x.end(), request.sample.begin(), request.sample.end());
      const std::vector<float> y = model(tensor(x).reshape({-1, 16})).to_vector<float>();  // [batch, 4]
      for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i].answer.set_value({y.begin() + 4 * i, y.begin() + 4 * (i + 1)});
    } catch (...) {  // the clients of this batch get the error, the worker goes on
      for (Request& request : batch) request.answer.set_exception(std::current_exception());
    }
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"requests", "2000"}, {"clients", "8"}, {"workers", "2"}, {"device", "cpu"}});
  const auto count = [&](const char* name) { return static_cast<std::size_t>(options.integer(name)); };
  const std::size_t requests = count("requests"), worker_count = count("workers"),
                    client_count = count("clients");
  const DeviceScope device(options["device"]);
  const std::string name = "serve_threads_" + std::to_string(std::random_device{}()) + ".safetensors";
  const auto file = std::filesystem::temp_directory_path() / name;
  save(file, nn::Sequential{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 4)}, {{DType::f32, {1, 16}}});
  const SavedModel model = load(file);  // threads may call it at the same time
  std::filesystem::remove(file);
  for (std::int64_t n = 1; n <= kMost; ++n) model(zeros({n, 16})).eval();
  Queue queue;
  std::vector<double> seconds(requests);
  std::vector<std::jthread> workers(worker_count), clients(client_count);
  for (std::jthread& worker : workers) worker = std::jthread([&] { work(model, queue); });
  std::atomic<std::size_t> next = 0, wrong = 0;
  const Clock::time_point begin = Clock::now();
  const auto ask = [&] {  // a client: one request after the other
    for (std::size_t i = next++; i < seconds.size(); i = next++) try {
        const Clock::time_point asked = Clock::now();
        const float value = static_cast<float>(i % 100) / 50;
        Request request{std::vector<float>(16, value), {}};
        std::future<std::vector<float>> answer = request.answer.get_future();
        queue.add(std::move(request));
        const std::vector<float> got = answer.get();
        seconds[i] = std::chrono::duration<double>(Clock::now() - asked).count();
        wrong += !allclose(tensor(got), model(full({1, 16}, value))[0], 1e-4);
      } catch (const std::exception&) {
        ++wrong;
      }
  };
  for (std::jthread& client : clients) client = std::jthread(ask);
  clients.clear();  // waits for them
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  queue.close();
  std::sort(seconds.begin(), seconds.end());
  std::printf("%zu answers, %zu wrong; %.0f a second, p50 %.3f ms, p99 %.3f ms\n", seconds.size(),
              wrong.load(), static_cast<double>(seconds.size()) / took, 1e3 * seconds[seconds.size() / 2],
              1e3 * seconds[seconds.size() * 99 / 100]);
} catch (const std::exception& error) {
  std::cerr << "serve_threads: " << error.what() << "\n";
  return 1;
}
