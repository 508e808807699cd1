// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trees of values by their types: the kind of each node, and the combination of several trees to one tree.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

template <class T>
struct tree_members;

namespace detail {

enum class NodeKind { leaf, nothing, tuple, sequence, array, map, optional, variant, aggregate, members };

template <class T>
concept HasMembers = requires { tree_members<T>::pointers; };

/// A leaf that is to become a T. A tree of T that is made in two steps has cells in the first step: a cell is a leaf
/// for every T, and has an address even if T is bool, whose vector has elements without addresses.
template <class T>
struct Cell {
  T value;
};

/// The node of an aggregate T while its leaves are cells.
template <class T, class... Child>
struct Members {
  const T* from;  // members that are not in the tree are copied from here; must exist until the cells are replaced
  std::tuple<Child...> children;
};

/// std::list and std::deque, without the cost of their headers: sequences that grow at both ends.
template <class T>
concept Sequence = requires(T& list, typename T::value_type& value) {
  typename T::allocator_type;
  list.push_front(std::move(value));
  list.push_back(std::move(value));
};

/// std::map and std::unordered_map: containers that find a value by its key.
template <class T>
concept Map = requires(T& map, const typename T::key_type& key) {
  typename T::allocator_type;
  requires std::same_as<typename T::value_type, std::pair<const typename T::key_type, typename T::mapped_type>>;
  map.at(key);
  map.find(key)->second;
};

template <class T>
constexpr NodeKind node_kind_of() {
  if (HasMembers<T>) return NodeKind::aggregate;
  if (Sequence<T>) return NodeKind::sequence;
  return Map<T> ? NodeKind::map : NodeKind::leaf;
}
template <class T>
inline constexpr NodeKind node_kind = node_kind_of<T>();
template <class T, class... Child>
inline constexpr NodeKind node_kind<Members<T, Child...>> = NodeKind::members;
template <>
inline constexpr NodeKind node_kind<std::monostate> = NodeKind::nothing;
template <>
inline constexpr NodeKind node_kind<std::nullptr_t> = NodeKind::nothing;
template <class... T>
inline constexpr NodeKind node_kind<std::variant<T...>> = NodeKind::variant;
template <class... T>
inline constexpr NodeKind node_kind<std::tuple<T...>> = NodeKind::tuple;
template <class A, class B>
inline constexpr NodeKind node_kind<std::pair<A, B>> = NodeKind::tuple;
template <class T>
inline constexpr NodeKind node_kind<std::optional<T>> = NodeKind::optional;
template <class T, class A>
inline constexpr NodeKind node_kind<std::vector<T, A>> = Element<T> ? NodeKind::leaf : NodeKind::sequence;
template <class T, std::size_t n>
inline constexpr NodeKind node_kind<std::array<T, n>> = Element<T> ? NodeKind::leaf : NodeKind::array;

/// Type of the same kind of container with other elements.
template <class Container, class Element>
struct rebind;
template <class T, class A, class U>
struct rebind<std::vector<T, A>, U> {
  using type = std::vector<U>;
};
template <template <class, class> class List, class T, class A, class U>
  requires Sequence<List<T, A>>
struct rebind<List<T, A>, U> {
  using type = List<U, std::allocator<U>>;
};
template <template <class, class, class, class> class Sorted, class K, class T, class C, class A, class U>
  requires Map<Sorted<K, T, C, A>>
struct rebind<Sorted<K, T, C, A>, U> {
  using type = Sorted<K, U, C, std::allocator<std::pair<const K, U>>>;
};
template <template <class, class, class, class, class> class Hashed, class K, class T, class H, class E, class A,
          class U>
  requires Map<Hashed<K, T, H, E, A>>
struct rebind<Hashed<K, T, H, E, A>, U> {
  using type = Hashed<K, U, H, E, std::allocator<std::pair<const K, U>>>;
};

template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

/// Throws Error(invalid_argument): `what` differs between the trees of local replicas `local` and 0.
[[noreturn]] LOCKSTEP_API void throw_structure_differs(const char* what, int local);

/// Calls `fn` with all members of `aggregate` as arguments.
template <class T, class Fn>
decltype(auto) with_members(T& aggregate, Fn&& fn) {
  return std::apply([&](auto... pointers) -> decltype(auto) { return fn(aggregate.*pointers...); },
                    tree_members<std::remove_const_t<T>>::pointers);
}

/// Type of member k of an aggregate; const if the aggregate is const.
template <class T, std::size_t k>
using member_t = std::remove_reference_t<decltype(std::declval<T&>().*
                                                  (std::get<k>(tree_members<std::remove_const_t<T>>::pointers)))>;

/// Whether `Test<L>::value` holds for at least one leaf type L of the tree.
template <class Tree, template <class> class Test>
struct any_leaf;

template <class T>
struct is_cell : std::false_type {};
template <class T>
struct is_cell<Cell<T>> : std::true_type {};

/// Whether `Combiner`, an argument of `combine`, treats aggregates as leaves: it has a member type `whole_aggregates`.
template <class Combiner>
concept KeepsAggregates = requires { typename Combiner::whole_aggregates; };

/// The numbers 0 to count - 1, sorted by `is_less(list, a, b)`.
[[nodiscard]] LOCKSTEP_API std::vector<std::size_t> sorted_numbers(std::size_t count, const void* list,
                                                                   bool (*is_less)(const void* list, std::size_t a,
                                                                                   std::size_t b));

/// Calls `fn(entry)` for each entry of `map`: in the order of the map or, if it has none (unordered_map), in the order
/// of the keys, so that equal maps have one order on all ranks. Keys without operator< have the order of the map.
template <class Map, class Fn>
void for_each_entry(Map& map, Fn&& fn) {
  constexpr bool has_order = requires { typename std::remove_const_t<Map>::key_compare; };
  constexpr bool has_ordered_keys = requires(const typename std::remove_const_t<Map>::key_type& key) { key < key; };
  if constexpr (has_order || !has_ordered_keys) {
    for (auto& entry : map) fn(entry);
  } else {
    using Entries = std::vector<decltype(&*map.begin())>;
    Entries entries;
    for (auto& entry : map) entries.push_back(&entry);
    const auto is_less = [](const void* list, std::size_t a, std::size_t b) {
      const Entries& all = *static_cast<const Entries*>(list);
      return all[a]->first < all[b]->first;
    };
    for (const std::size_t k : sorted_numbers(entries.size(), &entries, is_less)) fn(*entries[k]);
  }
}

/// Combines `count` trees of one type to one tree. `get(i)` returns tree i. For each leaf, of type L, `leaf.template
/// operator()<L>(get_leaf)` returns the leaf of the result; `get_leaf(i)` returns the corresponding leaf of tree i.
/// Throws Error(invalid_argument) if the structures differ.
template <class Tree, class Get, class Leaf>
auto combine(int count, const Get& get, const Leaf& leaf);

template <class Container, class Get>
void check_sizes(int count, const Get& get) {
  for (int i = 1; i < count; ++i) {
    if (get(i).size() != get(0).size()) throw_structure_differs("the number of elements", i);
  }
}

template <class Tree, class Get, class Leaf, std::size_t... k>
auto combine_tuple(int count, const Get& get, const Leaf& leaf, std::index_sequence<k...>) {
  const auto child = [&]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    using Child = std::remove_reference_t<decltype(std::get<j>(get(0)))>;
    return combine<Child>(count, [&get](int i) -> Child& { return std::get<j>(get(i)); }, leaf);
  };
  if constexpr (is_pair<std::remove_const_t<Tree>>) {
    return std::pair{child(std::integral_constant<std::size_t, k>{})...};
  } else {
    // braces evaluate the children from left to right
    return std::tuple<decltype(child(std::integral_constant<std::size_t, k>{}))...>{
        child(std::integral_constant<std::size_t, k>{})...};
  }
}

/// The node of an aggregate like `from` with other children: a T if their types are those of its members; Members if
/// they have cells; otherwise a tuple.
template <class T, class... Child, std::size_t... k>
auto aggregate_of(const T& from, std::tuple<Child...>&& children, std::index_sequence<k...>) {
  if constexpr (std::is_same_v<std::tuple<Child...>, std::tuple<std::remove_const_t<member_t<T, k>>...>>) {
    T result(from);
    ((result.*(std::get<k>(tree_members<T>::pointers)) = std::move(std::get<k>(children))), ...);
    return result;
  } else if constexpr ((any_leaf<Child, is_cell>::value || ...)) {
    return Members<T, Child...>{&from, std::move(children)};
  } else {
    return std::move(children);
  }
}

template <class Tree, class Get, class Leaf, std::size_t... k>
auto combine_aggregate(int count, const Get& get, const Leaf& leaf, std::index_sequence<k...> members) {
  using Plain = std::remove_const_t<Tree>;
  const auto child = [&]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    using Child = member_t<Tree, j>;
    return combine<Child>(
        count, [&get](int i) -> Child& { return get(i).*(std::get<j>(tree_members<Plain>::pointers)); }, leaf);
  };
  // braces evaluate the children from left to right
  return aggregate_of<Plain>(get(0),
                             std::tuple<decltype(child(std::integral_constant<std::size_t, k>{}))...>{
                                 child(std::integral_constant<std::size_t, k>{})...},
                             members);
}

template <class T, class... Child, class Get, class Leaf, std::size_t... k>
auto combine_members(const Get& get, const Leaf& leaf, Members<T, Child...>* /*type*/,
                     std::index_sequence<k...> members) {
  const auto child = [&]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    using Node = std::remove_reference_t<decltype(std::get<j>(get(0).children))>;
    return combine<Node>(1, [&get](int) -> Node& { return std::get<j>(get(0).children); }, leaf);
  };
  return aggregate_of<T>(*get(0).from,
                         std::tuple<decltype(child(std::integral_constant<std::size_t, k>{}))...>{
                             child(std::integral_constant<std::size_t, k>{})...},
                         members);
}

template <class Tree, class Get, class Leaf>
auto combine_sequence(int count, const Get& get, const Leaf& leaf) {
  using Plain = std::remove_const_t<Tree>;
  using Child = std::remove_reference_t<decltype(*get(0).begin())>;
  check_sizes<Plain>(count, get);
  const auto child = [&](std::ptrdiff_t k) {
    return combine<Child>(count, [&get, k](int i) -> Child& { return *std::next(get(i).begin(), k); }, leaf);
  };
  typename rebind<Plain, decltype(child(0))>::type result;
  const auto size = static_cast<std::ptrdiff_t>(get(0).size());
  for (std::ptrdiff_t k = 0; k < size; ++k) result.push_back(child(k));
  return result;
}

template <class Tree, class Get, class Leaf, std::size_t... k>
auto combine_array(int count, const Get& get, const Leaf& leaf, std::index_sequence<k...>) {
  using Child = std::remove_reference_t<decltype(get(0)[0])>;
  const auto child = [&](std::size_t j) {
    return combine<Child>(count, [&get, j](int i) -> Child& { return get(i)[j]; }, leaf);
  };
  return std::array<decltype(child(0)), sizeof...(k)>{child(k)...};
}

template <class Tree, class Get, class Leaf>
auto combine_map(int count, const Get& get, const Leaf& leaf) {
  using Plain = std::remove_const_t<Tree>;
  using Child = std::remove_reference_t<decltype((get(0).begin()->second))>;
  check_sizes<Plain>(count, get);
  const auto child = [&](const auto& key) {
    return combine<Child>(
        count,
        [&get, &key](int i) -> Child& {
          const auto found = get(i).find(key);
          if (found == get(i).end()) throw_structure_differs("the keys of a map", i);
          return found->second;
        },
        leaf);
  };
  typename rebind<Plain, decltype(child(get(0).begin()->first))>::type result;
  for_each_entry(get(0), [&](auto& entry) { result.emplace(entry.first, child(entry.first)); });
  return result;
}

template <class Tree, class Get, class Leaf>
auto combine_optional(int count, const Get& get, const Leaf& leaf) {
  using Child = std::remove_reference_t<decltype(*get(0))>;
  for (int i = 1; i < count; ++i) {
    if (get(i).has_value() != get(0).has_value()) throw_structure_differs("whether an optional has a value", i);
  }
  const auto child = [&] { return combine<Child>(count, [&get](int i) -> Child& { return *get(i); }, leaf); };
  return get(0).has_value() ? std::optional<decltype(child())>(child()) : std::nullopt;
}

template <class Tree, class Get, class Leaf, std::size_t... k>
auto combine_variant(int count, const Get& get, const Leaf& leaf, std::index_sequence<k...>) {
  for (int i = 1; i < count; ++i) {
    if (get(i).index() != get(0).index()) throw_structure_differs("which alternative a variant holds", i);
  }
  const auto child = [&]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    using Child = std::remove_reference_t<decltype(std::get<j>(get(0)))>;
    return combine<Child>(count, [&get](int i) -> Child& { return std::get<j>(get(i)); }, leaf);
  };
  std::optional<std::variant<decltype(child(std::integral_constant<std::size_t, k>{}))...>> result;
  ((get(0).index() == k
        ? static_cast<void>(result.emplace(std::in_place_index<k>, child(std::integral_constant<std::size_t, k>{})))
        : static_cast<void>(0)),
   ...);
  return std::move(result.value());  // throws if the variant is valueless_by_exception
}

template <class Tree, class Get, class Leaf>
auto combine(int count, const Get& get, const Leaf& leaf) {
  using Plain = std::remove_const_t<Tree>;
  constexpr auto kind = node_kind<Plain>;
  if constexpr (kind == NodeKind::leaf || (kind == NodeKind::aggregate && KeepsAggregates<Leaf>)) {
    return leaf.template operator()<Plain>(get);
  } else if constexpr (kind == NodeKind::members) {
    return combine_members(get, leaf, static_cast<Plain*>(nullptr),
                           std::make_index_sequence<std::tuple_size_v<decltype(Plain::children)>>{});
  } else if constexpr (kind == NodeKind::nothing) {
    return Plain{};
  } else if constexpr (kind == NodeKind::variant) {
    return combine_variant<Tree>(count, get, leaf, std::make_index_sequence<std::variant_size_v<Plain>>{});
  } else if constexpr (kind == NodeKind::tuple) {
    return combine_tuple<Tree>(count, get, leaf, std::make_index_sequence<std::tuple_size_v<Plain>>{});
  } else if constexpr (kind == NodeKind::aggregate) {
    return combine_aggregate<Tree>(
        count, get, leaf,
        std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(tree_members<Plain>::pointers)>>>{});
  } else if constexpr (kind == NodeKind::sequence) {
    return combine_sequence<Tree>(count, get, leaf);
  } else if constexpr (kind == NodeKind::array) {
    return combine_array<Tree>(count, get, leaf, std::make_index_sequence<std::tuple_size_v<Plain>>{});
  } else if constexpr (kind == NodeKind::map) {
    return combine_map<Tree>(count, get, leaf);
  } else {
    return combine_optional<Tree>(count, get, leaf);
  }
}

template <class Tree, template <class> class Test>
struct any_leaf : Test<Tree> {};
template <template <class> class Test, class... T>
struct any_leaf_of : std::bool_constant<(any_leaf<std::remove_const_t<T>, Test>::value || ...)> {};
template <class... T, template <class> class Test>
struct any_leaf<std::tuple<T...>, Test> : any_leaf_of<Test, T...> {};
template <class A, class B, template <class> class Test>
struct any_leaf<std::pair<A, B>, Test> : any_leaf_of<Test, A, B> {};
template <class... T, template <class> class Test>
struct any_leaf<std::variant<T...>, Test> : any_leaf_of<Test, T...> {};
template <class T, template <class> class Test>
  requires(node_kind<T> == NodeKind::nothing)
struct any_leaf<T, Test> : std::false_type {};
template <class T, template <class> class Test>
  requires(node_kind<T> == NodeKind::sequence || node_kind<T> == NodeKind::array || node_kind<T> == NodeKind::optional)
struct any_leaf<T, Test> : any_leaf_of<Test, typename T::value_type> {};
template <class T, template <class> class Test>
  requires(node_kind<T> == NodeKind::map)
struct any_leaf<T, Test> : any_leaf_of<Test, typename T::mapped_type> {};
template <class T, class... Child, template <class> class Test>
struct any_leaf<Members<T, Child...>, Test> : any_leaf_of<Test, Child...> {};
template <HasMembers T, template <class> class Test>
struct any_leaf<T, Test> {
  static constexpr bool value = []<class... M>(std::tuple<M T::*...>) {
    return any_leaf_of<Test, M...>::value;
  }(tree_members<T>::pointers);
};

}  // namespace detail
}  // namespace lockstep
