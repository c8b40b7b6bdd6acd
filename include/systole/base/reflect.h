#pragma once

// The members of a plain aggregate, seen at compile time: how many, their names, and a walk over them.
//
//   struct Point { int x; double y; };
//   reflect::for_each_member(point, [](std::string_view name, auto& member) { … });
//
// Members are counted by trying how many initialisers the aggregate takes. They are reached by structured
// bindings. A name is read from the compiler's spelling of a template argument, the address of the member in
// an object that is declared and never defined; nothing is stored and nothing needs registering.
//
// Works for aggregates of up to kMaxMembers members, whatever these are: const, move-only, arrays, without
// default constructor. Not for base classes, references, bit-fields and unions.

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace systole::reflect {

inline constexpr std::size_t kMaxMembers = 64;

template <class T>
concept Aggregate = std::is_aggregate_v<std::remove_cvref_t<T>> && std::is_class_v<std::remove_cvref_t<T>>;

namespace detail {

inline constexpr std::size_t kMaxInitialisers = 128;  // tried before giving up

// Stands for an initialiser of anything but T itself. It converts worse than a constructor that takes any
// type, so that a member with one (std::optional) sees no ambiguity.
template <class T>
struct Any {
  template <class U>
    requires(!std::same_as<U, T>)
  operator U() const& {
    throw;  // never called; defined since a compiler may want the body when it tries a constexpr constructor
  }
};

// Stands for a base class of T.
template <class T>
struct AnyBase {
  template <class U>
    requires(std::is_base_of_v<U, T> && !std::same_as<U, T>)
  operator U() const& {
    throw;
  }
};

template <class T, std::size_t>
using AnyAt = Any<T>;

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{AnyAt<T, I>{}...}; };
}

template <class T, std::size_t... I>
constexpr bool takes_base(std::index_sequence<I...>) {
  return requires { T{AnyBase<T>{}, AnyAt<T, I>{}...}; };
}

// Whether T takes `Before` initialisers, `Inside` ones in braces, and `After` more.
template <class T, std::size_t... Before, std::size_t... Inside, std::size_t... After>
constexpr bool takes_braced(std::index_sequence<Before...>, std::index_sequence<Inside...>,
                            std::index_sequence<After...>) {
  return requires { T{AnyAt<T, Before>{}..., {AnyAt<T, Inside>{}...}, AnyAt<T, After>{}...}; };
}
template <class T, std::size_t Before, std::size_t Inside, std::size_t After>
constexpr bool takes_with_braces =
    takes_braced<T>(std::make_index_sequence<Before>{}, std::make_index_sequence<Inside>{},
                    std::make_index_sequence<After>{});

// The most initialisers that T takes; `Most` were taken, `N` are tried next. Fewer can be refused where a
// member or an array's rest has no default, so a refusal is believed only after kMaxGap more.
inline constexpr std::size_t kNone = ~std::size_t{0}, kMaxGap = 8;
template <class T, std::size_t N = 0, std::size_t Most = kNone>
constexpr std::size_t initialiser_count() {
  if constexpr (takes<T>(std::make_index_sequence<N>{}))
    return initialiser_count<T, N + 1, N>();
  else if constexpr (N < (Most == kNone ? kMaxInitialisers : Most + kMaxGap))
    return initialiser_count<T, N + 1, Most>();
  else
    return Most;
}

// Braces fill an array of Size elements at once, after which Rest may follow and no more.
template <class T, std::size_t First, std::size_t Inside, std::size_t Rest>
constexpr bool filled_by_braces =
    takes_with_braces<T, First, Inside, Rest> && !takes_with_braces<T, First, Inside, Rest + 1>;

// How many of T's `Total` initialisers the member that starts at `First` takes: one, or an array's elements.
template <class T, std::size_t Total, std::size_t First, std::size_t Size = 2>
constexpr std::size_t member_extent() {
  constexpr std::size_t others = Total - First - 1;
  if constexpr (Size > others + 1)
    return 1;
  else if constexpr (Size == 2 &&
                     (takes_with_braces<T, First, 0, others> || takes_with_braces<T, First, 1, others>))
    return 1;
  else if constexpr (filled_by_braces<T, First, 0, others + 1 - Size> ||
                     filled_by_braces<T, First, Size, others + 1 - Size>)
    return Size;
  else
    return member_extent<T, Total, First, Size + 1>();
}

template <class T, std::size_t Total, std::size_t First = 0>
constexpr std::size_t count_members() {
  if constexpr (First == Total)
    return 0;
  else
    return 1 + count_members<T, Total, First + member_extent<T, Total, First>()>();
}

template <class T, std::size_t Total, std::size_t After = 0>
constexpr bool has_base() {
  if constexpr (After >= Total)
    return false;
  else
    return takes_base<T>(std::make_index_sequence<After>{}) || has_base<T, Total, After + 1>();
}

template <class T>
constexpr std::size_t checked_member_count() {
  static_assert(
      Aggregate<T>,
      "only a plain struct shows its members: one without constructors, private members and virtual "
      "functions");
  constexpr std::size_t total = initialiser_count<T>();
  if constexpr (total == kNone) {
    static_assert(
        total != kNone,
        "the members of this struct cannot be counted: one is a reference or cannot be initialised");
  } else if constexpr (has_base<T, total>()) {
    static_assert(total == kNone, "a struct with a base class does not show its members");
  } else {
    constexpr std::size_t count = count_members<T, total>();
    static_assert(count <= kMaxMembers, "a struct of more than 64 members does not show them");
    return count;
  }
  return 0;
}

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

// An object that nobody defines; only the addresses of its members are named.
template <class T>
struct Nowhere {
  T object;
};
template <class T>
extern const Nowhere<T> nowhere;

#define SYSTOLE_BIND(count, ...)  \
  if constexpr (Count == count) { \
    auto& [__VA_ARGS__] = object; \
    return std::tie(__VA_ARGS__); \
  } else  // NOLINT: the chain goes on with the next line
#define SYSTOLE_8 a0, a1, a2, a3, a4, a5, a6, a7
#define SYSTOLE_16 SYSTOLE_8, b0, b1, b2, b3, b4, b5, b6, b7
#define SYSTOLE_24 SYSTOLE_16, c0, c1, c2, c3, c4, c5, c6, c7
#define SYSTOLE_32 SYSTOLE_24, d0, d1, d2, d3, d4, d5, d6, d7
#define SYSTOLE_40 SYSTOLE_32, e0, e1, e2, e3, e4, e5, e6, e7
#define SYSTOLE_48 SYSTOLE_40, f0, f1, f2, f3, f4, f5, f6, f7
#define SYSTOLE_56 SYSTOLE_48, g0, g1, g2, g3, g4, g5, g6, g7

// References to the members. The number of names in a structured binding must be written out.
// clang-format off
template <std::size_t Count, class T>
constexpr auto tie_members([[maybe_unused]] T& object) {
  if constexpr (Count == 0) { return std::tuple<>(); } else
  SYSTOLE_BIND(1, a0)
  SYSTOLE_BIND(2, a0, a1)
  SYSTOLE_BIND(3, a0, a1, a2)
  SYSTOLE_BIND(4, a0, a1, a2, a3)
  SYSTOLE_BIND(5, a0, a1, a2, a3, a4)
  SYSTOLE_BIND(6, a0, a1, a2, a3, a4, a5)
  SYSTOLE_BIND(7, a0, a1, a2, a3, a4, a5, a6)
  SYSTOLE_BIND(8, a0, a1, a2, a3, a4, a5, a6, a7)
  SYSTOLE_BIND(9, SYSTOLE_8, b0)
  SYSTOLE_BIND(10, SYSTOLE_8, b0, b1)
  SYSTOLE_BIND(11, SYSTOLE_8, b0, b1, b2)
  SYSTOLE_BIND(12, SYSTOLE_8, b0, b1, b2, b3)
  SYSTOLE_BIND(13, SYSTOLE_8, b0, b1, b2, b3, b4)
  SYSTOLE_BIND(14, SYSTOLE_8, b0, b1, b2, b3, b4, b5)
  SYSTOLE_BIND(15, SYSTOLE_8, b0, b1, b2, b3, b4, b5, b6)
  SYSTOLE_BIND(16, SYSTOLE_8, b0, b1, b2, b3, b4, b5, b6, b7)
  SYSTOLE_BIND(17, SYSTOLE_16, c0)
  SYSTOLE_BIND(18, SYSTOLE_16, c0, c1)
  SYSTOLE_BIND(19, SYSTOLE_16, c0, c1, c2)
  SYSTOLE_BIND(20, SYSTOLE_16, c0, c1, c2, c3)
  SYSTOLE_BIND(21, SYSTOLE_16, c0, c1, c2, c3, c4)
  SYSTOLE_BIND(22, SYSTOLE_16, c0, c1, c2, c3, c4, c5)
  SYSTOLE_BIND(23, SYSTOLE_16, c0, c1, c2, c3, c4, c5, c6)
  SYSTOLE_BIND(24, SYSTOLE_16, c0, c1, c2, c3, c4, c5, c6, c7)
  SYSTOLE_BIND(25, SYSTOLE_24, d0)
  SYSTOLE_BIND(26, SYSTOLE_24, d0, d1)
  SYSTOLE_BIND(27, SYSTOLE_24, d0, d1, d2)
  SYSTOLE_BIND(28, SYSTOLE_24, d0, d1, d2, d3)
  SYSTOLE_BIND(29, SYSTOLE_24, d0, d1, d2, d3, d4)
  SYSTOLE_BIND(30, SYSTOLE_24, d0, d1, d2, d3, d4, d5)
  SYSTOLE_BIND(31, SYSTOLE_24, d0, d1, d2, d3, d4, d5, d6)
  SYSTOLE_BIND(32, SYSTOLE_24, d0, d1, d2, d3, d4, d5, d6, d7)
  SYSTOLE_BIND(33, SYSTOLE_32, e0)
  SYSTOLE_BIND(34, SYSTOLE_32, e0, e1)
  SYSTOLE_BIND(35, SYSTOLE_32, e0, e1, e2)
  SYSTOLE_BIND(36, SYSTOLE_32, e0, e1, e2, e3)
  SYSTOLE_BIND(37, SYSTOLE_32, e0, e1, e2, e3, e4)
  SYSTOLE_BIND(38, SYSTOLE_32, e0, e1, e2, e3, e4, e5)
  SYSTOLE_BIND(39, SYSTOLE_32, e0, e1, e2, e3, e4, e5, e6)
  SYSTOLE_BIND(40, SYSTOLE_32, e0, e1, e2, e3, e4, e5, e6, e7)
  SYSTOLE_BIND(41, SYSTOLE_40, f0)
  SYSTOLE_BIND(42, SYSTOLE_40, f0, f1)
  SYSTOLE_BIND(43, SYSTOLE_40, f0, f1, f2)
  SYSTOLE_BIND(44, SYSTOLE_40, f0, f1, f2, f3)
  SYSTOLE_BIND(45, SYSTOLE_40, f0, f1, f2, f3, f4)
  SYSTOLE_BIND(46, SYSTOLE_40, f0, f1, f2, f3, f4, f5)
  SYSTOLE_BIND(47, SYSTOLE_40, f0, f1, f2, f3, f4, f5, f6)
  SYSTOLE_BIND(48, SYSTOLE_40, f0, f1, f2, f3, f4, f5, f6, f7)
  SYSTOLE_BIND(49, SYSTOLE_48, g0)
  SYSTOLE_BIND(50, SYSTOLE_48, g0, g1)
  SYSTOLE_BIND(51, SYSTOLE_48, g0, g1, g2)
  SYSTOLE_BIND(52, SYSTOLE_48, g0, g1, g2, g3)
  SYSTOLE_BIND(53, SYSTOLE_48, g0, g1, g2, g3, g4)
  SYSTOLE_BIND(54, SYSTOLE_48, g0, g1, g2, g3, g4, g5)
  SYSTOLE_BIND(55, SYSTOLE_48, g0, g1, g2, g3, g4, g5, g6)
  SYSTOLE_BIND(56, SYSTOLE_48, g0, g1, g2, g3, g4, g5, g6, g7)
  SYSTOLE_BIND(57, SYSTOLE_56, h0)
  SYSTOLE_BIND(58, SYSTOLE_56, h0, h1)
  SYSTOLE_BIND(59, SYSTOLE_56, h0, h1, h2)
  SYSTOLE_BIND(60, SYSTOLE_56, h0, h1, h2, h3)
  SYSTOLE_BIND(61, SYSTOLE_56, h0, h1, h2, h3, h4)
  SYSTOLE_BIND(62, SYSTOLE_56, h0, h1, h2, h3, h4, h5)
  SYSTOLE_BIND(63, SYSTOLE_56, h0, h1, h2, h3, h4, h5, h6)
  SYSTOLE_BIND(64, SYSTOLE_56, h0, h1, h2, h3, h4, h5, h6, h7)
  static_assert(Count <= kMaxMembers);
}
// clang-format on

#undef SYSTOLE_BIND
#undef SYSTOLE_8
#undef SYSTOLE_16
#undef SYSTOLE_24
#undef SYSTOLE_32
#undef SYSTOLE_40
#undef SYSTOLE_48
#undef SYSTOLE_56

// "… [with auto Address = (& nowhere<T>.Nowhere<T>::object.T::name)]" by g++, "… [Address =
// &nowhere.object.name]" by clang: the name is the last word.
template <auto Address>
constexpr auto spelled_member() {  // an alias as result type would be spelled too
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  std::size_t end = text.size();
  while (!in_word(text[end - 1])) --end;
  std::size_t begin = end;
  while (in_word(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <class T, std::size_t Count, std::size_t... I>
constexpr std::array<std::string_view, Count> spelled_members(std::index_sequence<I...>) {
  return {spelled_member<std::addressof(std::get<I>(tie_members<Count>(nowhere<T>.object)))>()...};
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <class T>
constexpr auto spelled_type() {
  constexpr std::string_view text = __PRETTY_FUNCTION__, start = "T = ";
  constexpr std::size_t begin = text.find(start) + start.size();
  return text.substr(begin, text.size() - 1 - begin);
}

}  // namespace detail

template <Aggregate T>
inline constexpr std::size_t member_count = detail::checked_member_count<std::remove_cvref_t<T>>();

// In the order of declaration.
template <Aggregate T>
inline constexpr std::array<std::string_view, member_count<T>> member_names =
    detail::spelled_members<std::remove_cvref_t<T>, member_count<T>>(
        std::make_index_sequence<member_count<T>>{});

// Calls fn(name, member) for each member in the order of declaration; a const object shows const members.
template <Aggregate T, class F>
constexpr void for_each_member(T&& object, F&& fn) {
  constexpr std::size_t count = member_count<T>;
  const auto members = detail::tie_members<count>(object);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (fn(member_names<T>[I], std::get<I>(members)), ...);
  }(std::make_index_sequence<count>{});
}

// The type as the compiler spells it: "systole::nn::Linear".
template <class T>
inline constexpr std::string_view type_name = detail::spelled_type<T>();

}  // namespace systole::reflect
