#include "systole/base/reflect.h"

#include <gtest/gtest.h>

#include <any>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace systole {
namespace {

using Names = std::vector<std::string>;

template <class T>
Names names_of() {
  return {reflect::member_names<T>.begin(), reflect::member_names<T>.end()};
}

struct Point {
  int x;
  double y;
};

struct Empty {};

// A class with a constructor and private parts, as modules are.
class Layer {
 public:
  Layer(int in, int out) : in_(in), out_(out) {}
  int in() const { return in_; }
  int out() const { return out_; }

 private:
  int in_, out_;
};

struct Net {
  Layer fc1{784, 128}, fc2{128, 10};
  int calls = 0;
  int forward() const { return fc2.out(); }
};

struct NoDefaults {
  Layer first;
  const int second;
  std::unique_ptr<int> third;
  Layer fourth;
};

struct Library {
  std::string text;
  std::optional<Layer> maybe;
  std::optional<int> number;
  std::vector<Layer> many;
  std::function<int(int)> call;
  std::tuple<Layer> one;
  std::tuple<int, Layer> pair;
  std::variant<int, std::string> choice;
  std::any anything;
  std::shared_ptr<Layer> shared;
  std::array<int, 3> numbers;
};

struct Nested {
  Point a;
  struct Inner {
    int deep_one, deep_two, deep_three;
  } b;
  Point c{1, 2};
};

struct Arrays {
  int before;
  float matrix[3];
  Layer layers[2] = {{1, 2}, {3, 4}};
  int single[1];
  int after;
};

struct Widest {
  int m00, m01, m02, m03, m04, m05, m06, m07, m08, m09, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20,
      m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41,
      m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62,
      m63;
};

template <class T>
struct Generic {
  T value_of_t;
  Generic<T>* next_;
};

TEST(Reflect, NamesMembersInOrderOfDeclaration) {
  EXPECT_EQ(names_of<Point>(), (Names{"x", "y"}));
  EXPECT_EQ(names_of<Net>(), (Names{"fc1", "fc2", "calls"}));
  EXPECT_EQ(names_of<Generic<int>>(), (Names{"value_of_t", "next_"}));
  EXPECT_EQ(names_of<Generic<Point>>(), (Names{"value_of_t", "next_"}));
}

TEST(Reflect, CountsAtCompileTime) {
  static_assert(reflect::member_count<Point> == 2);
  static_assert(reflect::member_count<const Net&> == 3);
  static_assert(reflect::member_count<Empty> == 0);
  static_assert(reflect::member_names<Point>[1] == "y");
}

TEST(Reflect, SeesMembersWithoutDefaultConstructorConstAndMoveOnlyOnes) {
  EXPECT_EQ(names_of<NoDefaults>(), (Names{"first", "second", "third", "fourth"}));
}

TEST(Reflect, SeesTheTypesOfTheStandardLibrary) {
  EXPECT_EQ(names_of<Library>(), (Names{"text", "maybe", "number", "many", "call", "one", "pair", "choice",
                                        "anything", "shared", "numbers"}));
}

TEST(Reflect, CountsANestedStructAndAnArrayAsOneMember) {
  EXPECT_EQ(names_of<Nested>(), (Names{"a", "b", "c"}));
  EXPECT_EQ(names_of<Nested::Inner>(), (Names{"deep_one", "deep_two", "deep_three"}));
  EXPECT_EQ(names_of<Arrays>(), (Names{"before", "matrix", "layers", "single", "after"}));
}

TEST(Reflect, ReachesSixtyFourMembers) {
  static_assert(reflect::member_count<Widest> == 64);
  EXPECT_EQ(reflect::member_names<Widest>[0], "m00");
  EXPECT_EQ(reflect::member_names<Widest>[63], "m63");
  Widest w{};
  int next = 0;
  reflect::for_each_member(w, [&](std::string_view, int& member) { member = next++; });
  EXPECT_EQ(w.m00, 0);
  EXPECT_EQ(w.m31, 31);
  EXPECT_EQ(w.m63, 63);
}

TEST(Reflect, AWalkChangesTheObjectItself) {
  Point p{1, 2};
  Names seen;
  reflect::for_each_member(p, [&](std::string_view name, auto& member) {
    seen.emplace_back(name);
    member *= 10;
  });
  EXPECT_EQ(seen, (Names{"x", "y"}));
  EXPECT_EQ(p.x, 10);
  EXPECT_EQ(p.y, 20);
}

TEST(Reflect, AConstObjectShowsConstMembers) {
  const Net net;
  int out = 0;
  reflect::for_each_member(net, [&](std::string_view name, auto& member) {
    static_assert(std::is_const_v<std::remove_reference_t<decltype(member)>>);
    if constexpr (std::is_same_v<decltype(member), const Layer&>)
      if (name == "fc2") out = member.out();
  });
  EXPECT_EQ(out, 10);
}

TEST(Reflect, WalksArraysWhole) {
  Arrays arrays{1, {2, 3, 4}, {{5, 6}, {7, 8}}, {9}, 10};
  int layers = 0;
  reflect::for_each_member(arrays, [&](std::string_view name, auto& member) {
    if constexpr (std::is_same_v<decltype(member), Layer(&)[2]>) {
      EXPECT_EQ(name, "layers");
      layers = member[1].in();
    }
  });
  EXPECT_EQ(layers, 7);
}

TEST(Reflect, AClassWithAConstructorIsNoAggregate) {
  static_assert(reflect::Aggregate<Net>);
  static_assert(reflect::Aggregate<const Net&>);
  static_assert(!reflect::Aggregate<Layer>);
  static_assert(!reflect::Aggregate<int>);
  static_assert(!reflect::Aggregate<int[2]>);
  static_assert(!reflect::Aggregate<std::string>);
}

TEST(Reflect, SeesStructsDeclaredInAFunction) {
  struct Local {
    int here;
    Layer there;
  };
  EXPECT_EQ(names_of<Local>(), (Names{"here", "there"}));
}

TEST(Reflect, SpellsTypes) {
  EXPECT_EQ(reflect::type_name<int>, "int");
  EXPECT_NE(reflect::type_name<Point>.find("Point"), std::string_view::npos);
}

}  // namespace

// External linkage must do as well as the unnamed namespace.
struct Visible {
  int alpha = 1, beta_2 = 2;
};

TEST(Reflect, SeesStructsOfOtherNamespaces) { EXPECT_EQ(names_of<Visible>(), (Names{"alpha", "beta_2"})); }

}  // namespace systole
