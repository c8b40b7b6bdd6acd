// Which film next? Matrix factorisation: users and items get vectors, and a rating is the product of two of
// them, plus what the user and the item are used to. Ratings are made up with noise of a known size, which
// nothing can predict: the error on unseen ratings is to come near it.
//
//   recommender [--epochs 10] [--users 400] [--items 300] [--device auto]

#include <systole/systole.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr double kNoise = 0.25;
constexpr std::int64_t kTastes = 3;  // what users differ in

struct Ratings {
  data::Source data;  // user, item, rating
  Tensor truth;       // f32[users,items], without the noise
};

// Each user has rated about a third of the items.
Ratings made_up(std::int64_t users, std::int64_t items) {
  const std::vector<Tensor> keys = random::split(random::key(1), 6);
  const Tensor likes = random::normal(keys[0], {users, kTastes}),
               has = random::normal(keys[1], {items, kTastes});
  const Tensor truth = 3 + 0.5 * random::normal(keys[2], {users, 1}) +
                       0.5 * random::normal(keys[3], {items}) + 0.5 * matmul(likes, has.transpose());
  const std::int64_t count = users * items / 3;
  const Tensor places = random::permutation(keys[4], users * items)[slice(0, count)];
  const Tensor ratings = take(truth, places) + random::normal(keys[5], {count}, 0, kNoise);
  return {data::arrays(floor_divide(places, items), mod(places, items), ratings), truth};
}

struct Factors {
  std::int64_t users, items, width = 8;
  nn::Embedding user{users, width}, item{items, width}, user_bias{users, 1}, item_bias{items, 1};
  Variable mean{Tensor(3.0F)};

  Tensor forward(const Tensor& users, const Tensor& items) const {
    return sum(user(users) * item(items), -1) + (user_bias(users) + item_bias(items)).squeeze(-1) + mean;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"epochs", "10"}, {"users", "400"}, {"items", "300"}, {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const Ratings ratings = made_up(options.integer("users"), options.integer("items"));
  auto [train, test] = ratings.data.split(0.9, 1);
  Factors model{options.integer("users"), options.integer("items")};
  for (const nn::Embedding* table : {&model.user, &model.item, &model.user_bias, &model.item_bias})
    nn::init::normal(table->weight, 0, 0.1);

  const std::int64_t epochs = options.integer("epochs"), steps = train.size() / 256 + 1;
  training::Trainer trainer(
      model, optim::AdamW(model, {.lr = optim::schedules::cosine(1e-2, epochs * steps), .weight_decay = 0.1}),
      {.loss = "mse", .metrics = {"rmse", "mae"}});
  trainer.fit(train, {.epochs = epochs, .batch = 256, .validation = test});
  const double usual = stddev(Tensor(train.columns()[2])).item<double>();
  std::printf("test RMSE %.4f; noise %.4f, deviation of the ratings %.4f\n", trainer.evaluate(test)["rmse"],
              kNoise, usual);

  // Every item for one user, best first.
  const Tensor all_items = arange(options.integer("items"), DType::i32);
  const auto [scores, best] = top_k(trainer.predict({zeros_like(all_items), all_items}), 5);
  for (std::int64_t i = 0; i < 5; ++i)
    std::printf("user 0 would give item %d %.2f; without noise it is %.2f\n", best[i].item<int>(),
                scores[i].item<double>(), ratings.truth[{0, best[i].item<int>()}].item<double>());
} catch (const std::exception& error) {
  std::cerr << "recommender: " << error.what() << "\n";
  return 1;
}
