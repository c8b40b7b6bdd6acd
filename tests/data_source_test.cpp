// Sources and what is made of them, folds against scikit-learn's (tests/data/sets/make_sets.py), and loaders.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "data/chance.h"
#include "error_check.h"
#include "systole/data.h"
#include "systole/io.h"

namespace systole::data {
namespace {

using Indices = std::vector<std::int64_t>;

// x: [i, 10·i] and y: i mod 3.
Source counted(std::int64_t count) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t i = 0; i < count; ++i) {
    x.insert(x.end(), {static_cast<float>(i), static_cast<float>(10 * i)});
    y.push_back(static_cast<std::int32_t>(i % 3));
  }
  return arrays(Literal::of<float>({count, 2}, std::span<const float>(x)),
                Literal::of<std::int32_t>({count}, std::span<const std::int32_t>(y)));
}

Indices firsts(const Source& source) {
  Indices result;
  for (std::int64_t i = 0; i < source.size(); ++i)
    result.push_back(static_cast<std::int64_t>(source[i][0].values<float>()[0]));
  return result;
}

struct Squares {
  std::int64_t count = 5;
  std::int64_t size() const { return count; }
  std::pair<Literal, Tensor> operator[](std::int64_t i) const {
    if (i == 13) throw std::runtime_error("unlucky");
    return {Literal::scalar(static_cast<float>(i)), Tensor(static_cast<float>(i * i))};
  }
};
static_assert(Dataset<Squares> && Dataset<std::vector<Sample>> && !Dataset<Source> && !Dataset<int>);

// Two inputs and a label, as a translation has: the label is the last field.
TEST(Source, TheLabelIsTheLastField) {
  const Source pairs = counted(9);
  const std::vector<Literal> columns = pairs.columns();
  const Source source = arrays(std::vector<Literal>{columns[0], columns[0], columns[1]});
  EXPECT_EQ(source.labels(), (Indices{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  const auto [first, second] = source.stratified_split(2.0 / 3, 1);
  EXPECT_EQ(first.size(), 6);
  Indices labels = first.labels();
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(labels, (Indices{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(StratifiedKFold{.splits = 3}(source)[0].test, StratifiedKFold{.splits = 3}(pairs)[0].test);
  EXPECT_EQ(KFold{.splits = 3}(source)[1].test, (Indices{3, 4, 5}));
  Loader loader(source, {.batch = 2, .shuffle = false});
  const Batch batch = *loader.next();
  EXPECT_EQ(batch.y().to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1}));
  Loader inputs(arrays(columns[0]), {.batch = 2});
  EXPECT_THROW(inputs.next()->y(), Error);
}

// A hundred classes of four: each part has its share of the whole, though no class can be cut so.
TEST(Source, SmallClassesAreSharedOutToo) {
  std::vector<std::int32_t> y;
  for (std::int32_t i = 0; i < 400; ++i) y.push_back(i / 4);
  const Source source = arrays(Literal(Type{DType::f32, {400, 1}}), Literal::of<std::int32_t>({400}, y));
  const auto [train, test] = source.stratified_split(0.9, 1);
  EXPECT_EQ(train.size(), 360);
  EXPECT_EQ(test.size(), 40);
  const Indices labels = test.labels();
  EXPECT_EQ(std::set<std::int64_t>(labels.begin(), labels.end()).size(), 40u);  // at most one of each
  const std::vector<Source> three = source.stratified_split({0.8, 0.1, 0.1}, 1);
  EXPECT_EQ(three[0].size(), 320);
  EXPECT_EQ(three[1].size(), 40);
  EXPECT_EQ(three[2].size(), 40);
  error_of(ErrorKind::kInvalidArgument, [&] { source.take(3).stratified_split(0.9, 1); });
}

TEST(Source, ClassesAreComparedBeforeSetsAreJoined) {
  const Source cats = counted(4).named("a", {}, {"cat", "dog", "cow"});
  EXPECT_EQ(cats.concat(cats).size(), 8);
  error_of(ErrorKind::kInvalidArgument,
           [&] { cats.concat(counted(4).named("b", {}, {"cow", "cat", "dog"})); });
}

// Every pass of an endless set has its own chances.
TEST(Loader, AnEndlessSetIsNotChangedAlikeOnEveryPass) {
  const Custom number{.on_sample = [](Sample sample, std::uint64_t chance) {
    sample[0].mutable_values<float>()[0] = static_cast<float>(chance % 100003);
    return sample;
  }};
  Loader loader(counted(4).repeat(), {.batch = 4, .shuffle = false, .map = {number}, .workers = 0});
  const Batch first = *loader.next(), second = *loader.next();
  EXPECT_EQ(first.indices, second.indices);
  EXPECT_NE(first.arrays[0].to_doubles(), second.arrays[0].to_doubles());
  error_of(ErrorKind::kInvalidArgument, [&] { counted(4).map(Transforms{Mixup{.classes = 3}}); });
}

TEST(Source, IsMadeOfAnyDataset) {
  const Source source = Squares{};
  EXPECT_EQ(source.size(), 5);
  EXPECT_EQ(source[3][1].item<float>(), 9);
  const std::vector<Literal> batch = source.read({4, 0});
  EXPECT_EQ(batch[1].type(), (Type{DType::f32, {2}}));
  EXPECT_EQ(batch[1].values<float>()[0], 16);
  EXPECT_FALSE(source.in_memory());
  EXPECT_EQ(source.columns()[0].count(), 5);
  EXPECT_EQ(source.info().to_string(), "data: 5 samples, x f32[], y f32[]");
  EXPECT_TRUE(Source().empty());
  EXPECT_EQ(Source().read(Indices{}).size(), 0u);
}

TEST(Source, SaysWhichSampleIsWrong) {
  const Source source = Squares{20};
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { source.read({1, 13}); }).find("sample 13"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { source[20]; }).find("0 to 19"), std::string::npos);
  const Source mixed =
      std::vector<Sample>{{Literal(Type{DType::f32, {2}})}, {Literal(Type{DType::f32, {3}})}};
  EXPECT_NE(error_of(ErrorKind::kShape, [&] { mixed.read({0, 1}); }).find("sample 1"), std::string::npos);
}

TEST(Source, ArraysAreNotCopied) {
  const Literal x(Type{DType::f32, {6, 2}});
  const Source source = arrays(x);
  EXPECT_TRUE(source.in_memory());
  EXPECT_EQ(source.columns()[0].bytes(), x.bytes());
  const Source part = source.skip(2).take(3);
  EXPECT_TRUE(part.in_memory());
  EXPECT_EQ(part.columns()[0].bytes(), x.bytes() + 16);
  EXPECT_EQ(part.columns()[0].shape(), (Shape{3, 2}));
  error_of(ErrorKind::kShape, [&] { arrays(x, Literal(Type{DType::f32, {5}})); });
  error_of(ErrorKind::kShape, [&] { arrays(Literal::scalar(1.0f)); });
}

TEST(Source, LargeBatchesAreGatheredRight) {
  const std::int64_t count = 5000, width = 300;
  Literal x = Literal::uninitialized({DType::i32, {count, width}});
  std::span<std::int32_t> values = x.mutable_values<std::int32_t>();
  std::iota(values.begin(), values.end(), 0);
  const Indices order = permutation(count, 3);
  const Literal got = arrays(x).read(order)[0];
  for (std::size_t row = 0; row < order.size(); ++row)
    for (std::int64_t c : {std::int64_t{0}, width - 1})
      ASSERT_EQ(
          got.values<std::int32_t>()[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)],
          order[row] * width + c);
}

TEST(Source, OperationsGiveTheseSamples) {
  const Source source = counted(5);
  EXPECT_EQ(firsts(source.take(2)), (Indices{0, 1}));
  EXPECT_EQ(firsts(source.take(9)), (Indices{0, 1, 2, 3, 4}));
  EXPECT_EQ(firsts(source.skip(3)), (Indices{3, 4}));
  EXPECT_EQ(source.skip(7).size(), 0);
  EXPECT_EQ(firsts(source.select({4, 4, 0})), (Indices{4, 4, 0}));
  EXPECT_TRUE(source.select({4, 0}).in_memory());
  EXPECT_EQ(source.select({4, 0}).columns()[0].values<float>()[1], 40);
  EXPECT_EQ(firsts(source.take(2).repeat(2)), (Indices{0, 1, 0, 1}));
  EXPECT_EQ(firsts(source.take(1).concat(source.skip(4))), (Indices{0, 4}));
  EXPECT_TRUE(source.concat(source).in_memory());
  EXPECT_EQ(source.concat(source).columns()[1].count(), 10);
  EXPECT_EQ(source.select({2, 4}).labels(), (Indices{2, 1}));
  const Source doubled = source.map([](Sample s) {
    for (float& v : s[0].mutable_values<float>()) v *= 2;
    return s;
  });
  EXPECT_EQ(firsts(doubled), (Indices{0, 2, 4, 6, 8}));
  EXPECT_EQ(firsts(source), (Indices{0, 1, 2, 3, 4}));  // a sample is a value: the change is not seen here
  EXPECT_EQ(source.named("mine", {"a"}, {"p", "q", "r"}).info().to_string(),
            "mine: 5 samples, a f32[2], y i32[] of 3 classes");
  error_of(ErrorKind::kInvalidArgument, [&] { source.select({5}); });
  error_of(ErrorKind::kInvalidArgument, [&] { source.take(-1); });
  error_of(ErrorKind::kShape, [&] { source.concat(Squares{}); });
  error_of(ErrorKind::kDType, [&] { source.labels(0); });
}

TEST(Source, RepeatsWithoutEnd) {
  const Source endless = counted(3).repeat();
  EXPECT_TRUE(endless.endless());
  EXPECT_EQ(endless.period(), 3);
  EXPECT_EQ(endless[1'000'000'000'001][0].values<float>()[0], 1'000'000'000'001 % 3);
  EXPECT_EQ(firsts(endless.take(4)), (Indices{0, 1, 2, 0}));
  error_of(ErrorKind::kLimit, [&] { endless.columns(); });
  error_of(ErrorKind::kInvalidArgument, [&] { endless.cache(); });
  error_of(ErrorKind::kInvalidArgument, [&] { endless.split(0.5); });
  error_of(ErrorKind::kLimit, [&] { counted(3).repeat(kEndless / 2); });
}

TEST(Source, CacheReadsEachSampleOnce) {
  struct Counting {
    std::shared_ptr<std::atomic<int>> reads;
    std::int64_t size() const { return 8; }
    Literal operator[](std::int64_t i) const {
      ++*reads;
      return Literal::scalar(static_cast<float>(i));
    }
  };
  const auto reads = std::make_shared<std::atomic<int>>(0);
  const Source cached = Source(Counting{reads}).cache();
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(firsts(cached), (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(*reads, 8);
}

TEST(Source, SplitsLeaveNothingOver) {
  const Source source = counted(10);
  const auto [a, b] = source.split(0.8);
  EXPECT_EQ(firsts(b), (Indices{8, 9}));
  EXPECT_EQ(a.size(), 8);
  const std::vector<Source> parts = source.split({0.33, 0.33, 0.34}, 7);
  Indices all;
  for (const Source& part : parts)
    for (const std::int64_t i : firsts(part)) all.push_back(i);
  EXPECT_EQ(all, permutation(10, 7));
  EXPECT_EQ(parts[0].size() + parts[1].size() + parts[2].size(), 10);
  error_of(ErrorKind::kInvalidArgument, [&] { source.split({0.8, 0.3}); });
  error_of(ErrorKind::kInvalidArgument, [&] { source.split(-0.1); });
}

TEST(Source, StratifiedSplitsShareEveryClassAlike) {
  std::vector<std::int32_t> y;
  for (int i = 0; i < 200; ++i) y.push_back(i % 10 == 0 ? 5 : 1);
  const Source source = arrays(Literal(Type{DType::f32, {200, 1}}),
                               Literal::of<std::int32_t>({200}, std::span<const std::int32_t>(y)));
  const auto [train, test] = source.stratified_split(0.75, 1);
  const Indices labels = test.labels();
  EXPECT_EQ(labels.size(), 50u);
  EXPECT_EQ(std::count(labels.begin(), labels.end(), 5), 5);
  EXPECT_EQ(train.size(), 150);
}

TEST(Permutation, IsTheDocumentedOne) {
  // splitmix64 by hand, as the header describes it.
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  };
  std::uint64_t state = mix(42 + 0x9E3779B97F4A7C15u) + 3;
  Indices wanted(1000);
  std::iota(wanted.begin(), wanted.end(), 0);
  for (std::size_t i = 999; i > 0; --i) {
    state += 0x9E3779B97F4A7C15u;
    std::swap(wanted[i],
              wanted[static_cast<std::size_t>((static_cast<unsigned __int128>(mix(state)) * (i + 1)) >> 64)]);
  }
  EXPECT_EQ(permutation(1000, 42, 3), wanted);
  // The first words that Steele, Lea and Flood's generator gives for 0, by their published code.
  Chance chance(0);
  EXPECT_EQ(chance.word(), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(chance.word(), 0x6E789E6AA1B965F4u);
  EXPECT_NE(permutation(1000, 42, 3), permutation(1000, 42, 4));
  EXPECT_TRUE(permutation(0, 1).empty());
}

TEST(Folds, AreScikitLearns) {
  std::map<std::string, Indices> wanted;
  for (const io::NamedArray& array : io::load_npz(SYSTOLE_TEST_DATA "/sets/folds.npz")) {
    const auto values = array.value.values<std::int64_t>();
    wanted[array.name] = Indices(values.begin(), values.end());
  }
  ASSERT_EQ(numpy_permutation(100, 42), wanted.at("permutation_100_42"));
  const auto check = [&](const std::string& name, const std::vector<Fold>& folds) {
    const Indices& numbers = wanted.at(name);
    for (std::size_t f = 0; f < folds.size(); ++f) {
      Indices train, test;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        (numbers[i] == static_cast<std::int64_t>(f) ? test : train).push_back(static_cast<std::int64_t>(i));
      EXPECT_EQ(folds[f].test, test) << name << " fold " << f;
      EXPECT_EQ(folds[f].train, train) << name << " fold " << f;
    }
  };
  check("kfold_10_3_none", KFold{.splits = 3}(10));
  check("kfold_17_5_0", KFold{.splits = 5, .shuffle = true, .seed = 0}(17));
  check("kfold_100_7_42", KFold{.splits = 7, .shuffle = true, .seed = 42}(100));
  check("kfold_569_5_1", KFold{.splits = 5, .shuffle = true, .seed = 1}(569));
  for (const std::string name : {"uneven", "many"}) {
    const Indices& labels = wanted.at("labels_" + name);
    check("stratified_" + name + "_3_none", StratifiedKFold{.splits = 3}(labels));
    check("stratified_" + name + "_4_0", StratifiedKFold{.splits = 4, .shuffle = true, .seed = 0}(labels));
    check("stratified_" + name + "_5_123",
          StratifiedKFold{.splits = 5, .shuffle = true, .seed = 123}(labels));
  }
  const std::vector<Fold> single = LeaveOneOut{}(3);
  EXPECT_EQ(single.size(), 3u);
  EXPECT_EQ(single[1].test, (Indices{1}));
  EXPECT_EQ(single[1].train, (Indices{0, 2}));
  error_of(ErrorKind::kInvalidArgument, [] { KFold{.splits = 4}(3); });
  error_of(ErrorKind::kInvalidArgument, [] { KFold{.splits = 1}(3); });
  error_of(ErrorKind::kInvalidArgument, [] { LeaveOneOut{}(1); });
}

// Every batch of a pass: indices and the bytes of x.
std::vector<std::pair<Indices, Literal>> pass(Loader& loader) {
  std::vector<std::pair<Indices, Literal>> batches;
  for (const Batch& b : loader) batches.emplace_back(b.indices, b.arrays[0]);
  return batches;
}

void expect_same(const std::vector<std::pair<Indices, Literal>>& a,
                 const std::vector<std::pair<Indices, Literal>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(a[i].second.same_bits(b[i].second)) << "batch " << i;
  }
}

Source little_pictures(std::int64_t count) {
  const Digits made = digits(count, 4);
  return arrays(made.images, made.labels);
}

const Transforms kAugment{Crop{.padding = 3}, Flip{},      Rotate{.degrees = 20},
                          Cutout{.size = 5},  Normalize{}, Mixup{.alpha = 0.4, .classes = 10}};

TEST(Loader, GivesTheOrderOfThePermutationInBatches) {
  Loader loader(counted(10), {.batch = 4, .seed = 5});
  EXPECT_EQ(loader.steps(), 3);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(loader.epoch(), epoch);
    EXPECT_EQ(loader.order(), permutation(10, 5, epoch));
    Indices all;
    std::vector<std::int64_t> sizes;
    for (const Batch& b : loader) {
      EXPECT_EQ(b.epoch, epoch);
      EXPECT_EQ(b.x().shape(), (Shape{b.size(), 2}));
      for (std::size_t i = 0; i < b.indices.size(); ++i)
        EXPECT_EQ(b.arrays[0].values<float>()[2 * i + 1], static_cast<float>(10 * b.indices[i]));
      sizes.push_back(b.size());
      all.insert(all.end(), b.indices.begin(), b.indices.end());
    }
    EXPECT_EQ(all, permutation(10, 5, epoch));
    EXPECT_EQ(sizes, (Indices{4, 4, 2}));
  }
  Loader whole(counted(10), {.batch = 4, .shuffle = false, .drop_last = true});
  EXPECT_EQ(whole.steps(), 2);
  EXPECT_EQ(whole.order(), (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pass(whole).size(), 2u);
  Loader batch_error(counted(2), {});
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { batch_error.next()->tensor(2); }), "");
}

TEST(Loader, GivesTheSameBitsForAnyNumberOfWorkers) {
  std::vector<std::vector<std::pair<Indices, Literal>>> passes;
  for (const int workers : {0, 1, 2, 5}) {
    Loader loader(little_pictures(100),
                  {.batch = 7, .seed = 3, .map = kAugment, .workers = workers, .prefetch = 3});
    pass(loader);
    passes.push_back(pass(loader));  // epoch 1
  }
  for (const auto& other : passes) expect_same(passes[0], other);
  Loader again(little_pictures(100), {.batch = 7, .seed = 3, .map = kAugment});
  EXPECT_FALSE(pass(again)[0].second.same_bits(passes[0][0].second));  // epoch 0 is another
}

TEST(Loader, ContinuesInTheMiddleOfAnEpoch) {
  const LoaderOptions options{.batch = 7, .seed = 3, .map = kAugment};
  Loader whole(little_pictures(100), options);
  pass(whole);
  const auto wanted = pass(whole);

  Loader first(little_pictures(100), options);
  first.set_epoch(1);
  std::vector<std::pair<Indices, Literal>> got;
  for (const Batch& b : first) {
    got.emplace_back(b.indices, b.arrays[0]);
    if (b.step == 4) break;
  }
  const std::string saved = first.state().to_string();
  EXPECT_EQ(saved, "epoch 1 step 5 seed 3 batch 7 size 100");
  Loader second(little_pictures(100), options);
  second.restore(LoaderState::parse(saved));
  for (const Batch& b : second) got.emplace_back(b.indices, b.arrays[0]);
  expect_same(got, wanted);
  EXPECT_EQ(second.epoch(), 2);
  // Without restore(), a pass that was left early begins again.
  expect_same(pass(first), wanted);
  Loader other(little_pictures(99), options);
  error_of(ErrorKind::kInvalidArgument, [&] { other.restore(LoaderState::parse(saved)); });
  error_of(ErrorKind::kParse, [] { LoaderState::parse("epoch 1 step"); });
}

TEST(Loader, AnErrorOfAWorkerNamesItsSampleAndComesInOrder) {
  for (const int workers : {0, 3}) {
    Loader loader(Squares{20}, {.batch = 5, .shuffle = false, .workers = workers});
    int seen = 0;
    const std::string message = error_of(ErrorKind::kInvalidArgument, [&] {
      for (const Batch& b : loader) seen += static_cast<int>(b.size());
    });
    EXPECT_NE(message.find("sample 13"), std::string::npos) << message;
    EXPECT_NE(message.find("unlucky"), std::string::npos) << message;
    EXPECT_EQ(seen, 10);
  }
}

TEST(Loader, LeavesInTheMiddleOfAnEpoch) {
  struct Slow {
    std::int64_t size() const { return 1000; }
    Literal operator[](std::int64_t i) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return Literal::scalar(static_cast<float>(i));
    }
  };
  for (int i = 0; i < 5; ++i) {
    Loader loader(Slow{}, {.batch = 10, .workers = 4});
    loader.next();
    Loader moved = std::move(loader);
    moved.next();
  }
}

TEST(Loader, AnEndlessSetGoesOnWhereItWas) {
  Loader loader(counted(10).repeat(), {.batch = 4, .seed = 5, .workers = 2, .steps = 3});
  Indices all, wanted;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const Batch& b : loader) all.insert(all.end(), b.indices.begin(), b.indices.end());
  for (std::int64_t round = 0; round < 6; ++round) {
    const Indices one = permutation(10, 5, round);
    wanted.insert(wanted.end(), one.begin(), one.end());
  }
  EXPECT_EQ(all, wanted);  // 5 epochs of 3 batches of 4
  Loader forever(counted(10).repeat(), {.batch = 4});
  EXPECT_EQ(forever.steps(), kEndless);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(forever.next());
}

TEST(Loader, RefusesWhatCannotBe) {
  error_of(ErrorKind::kInvalidArgument, [] { Loader{Source()}; });
  error_of(ErrorKind::kInvalidArgument, [] { Loader(counted(3), {.batch = 0}); });
  error_of(ErrorKind::kInvalidArgument, [] { Loader(counted(3), {.workers = -2}); });
  error_of(ErrorKind::kInvalidArgument, [] { Loader(counted(3), {.map = {Flip{.probability = 2}}}); });
  Loader none(counted(3).take(0), {});
  EXPECT_EQ(none.steps(), 0);
  EXPECT_FALSE(none.next());
}

TEST(Loader, TakesPicturesOfDifferentSizesOnceTheyAreResized) {
  std::vector<Sample> samples;
  for (std::int64_t i = 1; i < 9; ++i)
    samples.push_back({Literal::full_int({DType::u8, {i, 2 * i, 3}}, i), Literal::scalar(std::int32_t{0})});
  Loader loader(samples, {.batch = 8, .shuffle = false, .map = {Resize{4, 4}, Normalize{.scale = 1.0}}});
  const Batch b = *loader.next();
  EXPECT_EQ(b.arrays[0].type(), (Type{DType::f32, {8, 4, 4, 3}}));
  EXPECT_EQ(b.arrays[0].values<float>().back(), 8);
  Loader without(samples, {.batch = 8});
  error_of(ErrorKind::kShape, [&] { without.next(); });
}

}  // namespace
}  // namespace systole::data
