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
#include <iterator>
#include <mutex>
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

class Queue {
 public:
  void add(Request request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(request));
    changed_.notify_one();
  }
  // All that waits, up to kMost; nothing when the queue is closed.
  std::vector<Request> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    const auto end = waiting_.begin() + std::min<std::ptrdiff_t>(kMost, std::ssize(waiting_));
    std::vector<Request> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
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
      Literal x({DType::f32, {std::ssize(batch), 16}});
      float* row = x.mutable_values<float>().data();
      for (const Request& request : batch) row = std::copy(request.sample.begin(), request.sample.end(), row);
      const std::vector<float> y = model(Tensor(x)).to_vector<float>();  // [batch, 4]
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
  const DeviceScope device(options["device"]);
  random::seed(1);
  const auto file = std::filesystem::temp_directory_path() / "systole_serve_threads.safetensors";
  save(file, nn::Sequential{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 4)}, {{DType::f32, {1, 16}}});
  const SavedModel model = load(file);  // threads may call it at the same time
  std::filesystem::remove(file);
  for (std::int64_t n = 1; n <= kMost; ++n) model(zeros({n, 16})).eval();
  Queue queue;
  std::vector<std::thread> workers, clients;
  for (auto n = options.integer("workers"); n > 0; --n) workers.emplace_back([&] { work(model, queue); });
  std::vector<double> seconds(static_cast<std::size_t>(options.integer("requests")));
  std::atomic<std::size_t> next = 0, wrong = 0;
  const Clock::time_point begin = Clock::now();
  const auto ask = [&] {  // a client: one request after the other
    for (std::size_t i = next++; i < seconds.size(); i = next++) {
      const Clock::time_point asked = Clock::now();
      Request request{std::vector<float>(16, static_cast<float>(i % 100) / 50), {}};
      const Tensor alone(Literal::of<float>({1, 16}, request.sample));
      std::future<std::vector<float>> answer = request.answer.get_future();
      queue.add(std::move(request));
      const std::vector<float> got = answer.get();
      seconds[i] = std::chrono::duration<double>(Clock::now() - asked).count();
      wrong += !allclose(tensor(got), model(alone)[0], 1e-4);
    }
  };
  for (std::int64_t i = 0; i < options.integer("clients"); ++i) clients.emplace_back(ask);
  for (std::thread& client : clients) client.join();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  queue.close();
  for (std::thread& worker : workers) worker.join();
  std::sort(seconds.begin(), seconds.end());
  std::printf("%zu answers, %zu wrong; %.0f a second, p50 %.3f ms, p99 %.3f ms\n", seconds.size(),
              wrong.load(), static_cast<double>(seconds.size()) / took, 1e3 * seconds[seconds.size() / 2],
              1e3 * seconds[seconds.size() * 99 / 100]);
} catch (const std::exception& error) {
  std::cerr << "serve_threads: " << error.what() << "\n";
  return 1;
}
