// Reinforcement learning by policy gradients (REINFORCE) on the cart that balances a pole: the state is the
// cart's place and speed and the pole's angle and angular speed; a push to the left or right is an action;
// each step on which the pole stands is a reward of 1, and an episode ends when it falls, the cart leaves the
// track or 200 steps are over.
//
//   reinforce [--iterations 60] [--carts 32] [--device cpu]      (random pushes keep it up for about 22
//   steps)

#include <systole/systole.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numeric>
#include <vector>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

constexpr int kLongest = 200;
constexpr float kDiscount = 0.99f;

struct Cart {  // Barto, Sutton and Anderson, 1983
  std::array<float, 4> state{};
  bool fallen = false;

  void push(bool right) {
    constexpr float kGravity = 9.8f, kPole = 0.1f, kTotal = 1.1f, kHalf = 0.5f, kStep = 0.02f;
    auto& [x, speed, angle, turning] = state;
    const float sine = std::sin(angle), cosine = std::cos(angle);
    const float pull = ((right ? 10.f : -10.f) + kPole * kHalf * turning * turning * sine) / kTotal;
    const float turn =
        (kGravity * sine - cosine * pull) / (kHalf * (4.f / 3 - kPole * cosine * cosine / kTotal));
    const float push = pull - kPole * kHalf * turn * cosine / kTotal;
    x += kStep * speed;
    speed += kStep * push;
    angle += kStep * turning;
    turning += kStep * turn;
    fallen = std::abs(x) > 2.4f || std::abs(angle) > 0.2095f;  // 12 degrees
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"iterations", "60"}, {"carts", "32"}, {"device", "cpu"}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const std::int64_t carts = options.integer("carts"), rows = carts * kLongest;

  nn::Sequential policy{nn::Linear(4, 32), nn::Tanh(), nn::Linear(32, 2)};
  optim::Adam adam(policy, {.lr = 0.01});
  auto choose = compile([&](const Tensor& states) {  // [carts, 4] to actions [carts]
    return distributions::Categorical::of_logits(policy(states)).sample(random::next_key());
  });
  auto learn = compile([&](const Tensor& states, const Tensor& actions, const Tensor& weights) {
    auto [loss, grads] = value_and_grad(
        [&] {
          const auto pushes = distributions::Categorical::of_logits(policy(states));
          return -sum(pushes.log_prob(actions) * weights) / static_cast<double>(carts);
        },
        parameters(policy));
    adam.update(grads);
    return loss;
  });

  Chance chance(7);
  for (std::int64_t iteration = 1; iteration <= options.integer("iterations"); ++iteration) {
    std::vector<Cart> all(static_cast<std::size_t>(carts));
    for (Cart& cart : all)
      for (float& value : cart.state) value = static_cast<float>(chance(-0.05, 0.05));
    // Row t·carts + c is step t of cart c; a weight of 0 is a step that was not taken.
    Literal states({DType::f32, {rows, 4}}), actions({DType::i32, {rows}}), weights({DType::f32, {rows}});
    const auto state = states.mutable_values<float>(), weight = weights.mutable_values<float>();
    const auto action = actions.mutable_values<std::int32_t>();
    std::vector<int> lengths(all.size());
    for (int t = 0; t < kLongest; ++t) {
      const std::size_t first = static_cast<std::size_t>(t) * all.size();
      Literal now({DType::f32, {carts, 4}});
      for (std::size_t c = 0; c < all.size(); ++c)
        std::copy(all[c].state.begin(), all[c].state.end(), now.mutable_values<float>().begin() + 4 * c);
      std::copy_n(now.values<float>().begin(), 4 * all.size(), state.begin() + 4 * first);
      const std::vector<std::int32_t> chosen = choose(Tensor(now)).to_vector<std::int32_t>();
      for (std::size_t c = 0; c < all.size(); ++c) {
        if (all[c].fallen) continue;
        action[first + c] = chosen[c];
        all[c].push(chosen[c] == 1);
        ++lengths[c];
      }
    }
    // What was still to come after each step, less what is usual.
    double total = 0, squares = 0, taken = 0;
    for (std::size_t c = 0; c < all.size(); ++c) {
      float ahead = 0;
      for (int t = lengths[c] - 1; t >= 0; --t, total += ahead, squares += ahead * ahead, ++taken)
        weight[static_cast<std::size_t>(t) * all.size() + c] = ahead = 1 + kDiscount * ahead;
    }
    const double usual = total / taken, spread = std::sqrt(squares / taken - usual * usual) + 1e-6;
    for (float& w : weight)
      if (w != 0) w = static_cast<float>((w - usual) / spread);
    learn(Tensor(states), Tensor(actions), Tensor(weights));
    if (iteration == 1 || iteration % 10 == 0)
      std::printf("iteration %lld: the pole stood for %.1f steps\n", static_cast<long long>(iteration),
                  static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), 0)) /
                      static_cast<double>(carts));
  }
} catch (const std::exception& error) {
  std::cerr << "reinforce: " << error.what() << "\n";
  return 1;
}
