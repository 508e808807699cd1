// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nests of values: types, objects with random sizes and elements, and their text. Equal texts mean equal structures,
// dtypes, shapes and bits.

#pragma once

#include "model/call.hpp"
#include "model/model.hpp"
#include "model/typed.hpp"

#include <lockstep/device/tensor.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::test {

/// An aggregate of a user.
template <class A, class B>
struct Record {
  A first;
  B rest;
};

}  // namespace lockstep::test

template <class A, class B>
struct lockstep::tree_members<lockstep::test::Record<A, B>> {
  static constexpr auto pointers =
      std::tuple(&lockstep::test::Record<A, B>::first, &lockstep::test::Record<A, B>::rest);
};

namespace lockstep::test {

// Types of nests. `in<PerReplica>` is the nest in cross-replica context, `in<Own>` the nest of one replica.
template <class Leaf>
using Own = Leaf;

template <class A>
struct SingleLeaf {
  static constexpr bool only_numbers = Element<A> && !std::same_as<A, bool>;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = W<A>;
};
template <class A>
struct ListNest {
  static constexpr bool only_numbers = Element<A> && !std::same_as<A, bool>;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::vector<W<A>>;
};
template <class A>
struct DictOfLists {
  static constexpr bool only_numbers = Element<A> && !std::same_as<A, bool>;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::map<std::string, std::vector<W<A>>>;
};
template <class A, class B, class C>
struct TupleNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::tuple<W<A>, std::optional<W<B>>, std::monostate, std::list<W<C>>>;
};
/// Three levels of nodes above the leaves.
template <class A, class B, class C>
struct DeepNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::pair<std::list<std::map<std::string, W<A>>>,
                       std::tuple<std::array<W<B>, 2>, std::variant<W<C>, std::list<W<A>>>>>;
};
/// Four levels.
template <class A, class B, class C>
struct DeeperNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::optional<std::deque<
      std::variant<W<A>, std::map<std::string, std::optional<W<B>>>, std::tuple<W<C>, std::array<W<A>, 1>>>>>;
};
template <class A, class B>
struct RecordNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = true;
  static constexpr bool keeps_types = false;
  template <template <class> class W>
  using in = std::list<Record<W<A>, std::deque<std::optional<W<B>>>>>;
};
/// Components that are nests.
template <class N>
struct ComponentNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = false;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = W<typename N::template in<Own>>;
};
/// Lists of components that are aggregates, between other leaves.
template <class A>
struct ListNestOfComponents {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = false;
  static constexpr bool keeps_types = true;
  template <template <class> class W>
  using in = std::tuple<W<A>, std::list<W<Record<A, std::deque<std::optional<A>>>>>, W<A>>;
};
/// Leaves of all kinds, for cross-replica context only.
template <class A, class B, class C>
struct MixedNest {
  static constexpr bool only_numbers = false;
  static constexpr bool in_replicas = false;
  static constexpr bool keeps_types = false;
  template <template <class> class W>
  using in = std::tuple<W<A>, Mirrored<B>, C, std::list<Mirrored<A>>, std::map<std::string, std::list<C>>>;
};

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = Element<T>;
template <class T, std::size_t n>
inline constexpr bool is_list<std::array<T, n>> = Element<T>;
template <class T>
inline constexpr bool is_leaf = Element<T> || std::same_as<T, Tensor> || is_list<T>;
template <class T>
inline constexpr int fixed_size = -1;
template <class T, std::size_t n>
inline constexpr int fixed_size<std::array<T, n>> = static_cast<int>(n);

template <class Node>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class Node>
inline constexpr bool is_array = false;
template <class T, std::size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;
template <class Node>
inline constexpr bool is_map = false;
template <class K, class T>
inline constexpr bool is_map<std::map<K, T>> = true;
template <class Node>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class Node>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;
template <class Node>
inline constexpr bool is_record = false;
template <class A, class B>
inline constexpr bool is_record<Record<A, B>> = true;

/// The text of an object: nodes with brackets, leaves with dtype, shape and bytes.
[[nodiscard]] std::string text_of_number(DType dtype, const std::byte* bytes);
[[nodiscard]] std::string text_of_elements(Form form, DType dtype, const Extents& shape, const std::byte* bytes);

/// A Tensor with these elements, and its text.
[[nodiscard]] Tensor tensor_of(const Elements& value);
[[nodiscard]] std::string text_of_value(const Elements& value);

template <class Node>
std::string text_of(const Node& node) {
  const auto all = [](const auto& nodes) {
    std::string text = "[";
    for (const auto& child : nodes) text += text_of(child) + ",";
    return text + "]";
  };
  if constexpr (std::same_as<Node, Tensor>) {
    const auto extents = node.shape().extents();
    return text_of_elements(Form::tensor, node.dtype(), {extents.begin(), extents.end()},
                            static_cast<const std::byte*>(node.data()));
  } else if constexpr (Element<Node>) {
    return text_of_number(dtype_of<Node>, reinterpret_cast<const std::byte*>(&node));
  } else if constexpr (is_tuple<Node>) {
    return std::apply([](const auto&... children) { return "(" + ((text_of(children) + ",") + ... + ")"); }, node);
  } else if constexpr (is_record<Node>) {
    return "(" + text_of(node.first) + "," + text_of(node.rest) + ",)";
  } else if constexpr (is_map<Node>) {
    std::string text = "{";
    for (const auto& [key, child] : node) text += key + "=" + text_of(child) + ",";
    return text + "}";
  } else if constexpr (is_optional<Node>) {
    return node ? "some(" + text_of(*node) + ")" : "none";
  } else if constexpr (is_variant<Node>) {
    return "#" + std::to_string(node.index()) + "(" +
           std::visit([](const auto& child) { return text_of(child); }, node) + ")";
  } else if constexpr (std::same_as<Node, std::monostate>) {
    return "nothing";
  } else {
    return all(node);
  }
}

/// Makes nests. The structure of a nest and the shapes of its leaves are those of the call; the elements also depend on
/// the leaf and the replica.
class Source {
 public:
  /// Replicas that the nests are made for: a range of ids.
  struct Range {
    int first = 0;
    int count = 1;
  };
  /// If `in_step`, a leaf that is not distributed is the value of replica `range.first`; otherwise all replicas share
  /// it.
  Source(const Call& call, Range range, bool in_step, const Layout& layout);

  int roll(int sides) { return structure_.roll(sides); }
  void write(std::string_view text) { skeleton_ += text; }
  /// The nest as text, with one '\1' for each leaf.
  [[nodiscard]] const std::string& skeleton() const { return skeleton_; }
  /// The leaves of each replica of the range.
  [[nodiscard]] const ReplicaLeaves& leaves() const { return leaves_; }

  template <class Leaf>
  PerReplica<Leaf> per_replica() {
    const std::vector<Elements>& values = next<Leaf>(Share::per_replica);
    return PerReplica<Leaf>(range_.count, range_.first,
                            [&values](int i) { return made<Leaf>(values[static_cast<std::size_t>(i)]); });
  }
  /// As above, but each component is a nest.
  template <class Component>
  PerReplica<Component> per_replica_nests();
  template <class Leaf>
  Mirrored<Leaf> mirrored() {
    const std::vector<Elements>& values = next<Leaf>(Share::mirrored);
    return Mirrored<Leaf>(range_.count, [&values](int) { return made<Leaf>(values.front()); });
  }
  template <class Leaf>
  Leaf plain() {
    return made<Leaf>(next<Leaf>(in_step_ ? Share::per_replica : Share::plain).front());
  }

 private:
  template <class Leaf>
  const std::vector<Elements>& next(Share share) {
    if constexpr (std::same_as<Leaf, Tensor>) {
      return next_tensor(share);
    } else if constexpr (is_list<Leaf>) {
      return next_list(share, dtype_of<typename Leaf::value_type>, fixed_size<Leaf>);
    } else {
      return next_leaf(share, Form::number, dtype_of<Leaf>, {});
    }
  }
  const std::vector<Elements>& next_tensor(Share share);
  const std::vector<Elements>& next_list(Share share, DType dtype, int size);
  const std::vector<Elements>& next_leaf(Share share, Form form, DType dtype, Extents shape,
                                         bool has_fixed_shape = true);

  template <class Leaf>
  static Leaf made(const Elements& value) {
    if constexpr (std::same_as<Leaf, Tensor>) {
      return tensor_of(value);
    } else {
      Leaf result{};
      void* to = &result;
      if constexpr (is_list<Leaf>) {
        if constexpr (fixed_size<Leaf> < 0) result.resize(static_cast<std::size_t>(value.shape[0]));
        to = result.data();
      }
      if (!value.bytes.empty()) std::memcpy(to, value.bytes.data(), value.bytes.size());
      return result;
    }
  }

  const Call& call_;
  Range range_;
  bool in_step_;
  const Layout& layout_;
  Dice structure_;
  std::string skeleton_;
  ReplicaLeaves leaves_;
  std::vector<Elements> values_;  // of the last leaf
};

template <class Node>
inline constexpr bool is_per_replica = false;
template <class T>
inline constexpr bool is_per_replica<PerReplica<T>> = true;
template <class Node>
inline constexpr bool is_mirrored = false;
template <class T>
inline constexpr bool is_mirrored<Mirrored<T>> = true;

template <class Node>
Node build(Source& source);

template <class Node, std::size_t... k>
Node build_tuple(Source& source, std::index_sequence<k...>) {
  const auto child = [&source]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    auto result = build<std::tuple_element_t<j, Node>>(source);
    source.write(",");
    return result;
  };
  return Node{child(std::integral_constant<std::size_t, k>{})...};
}

template <class Node, std::size_t... k>
Node build_variant(Source& source, std::size_t index, std::index_sequence<k...>) {
  std::optional<Node> result;
  const auto alternative = [&]<std::size_t j>(std::integral_constant<std::size_t, j>) {
    if (j == index) result.emplace(std::in_place_index<j>, build<std::variant_alternative_t<j, Node>>(source));
  };
  (alternative(std::integral_constant<std::size_t, k>{}), ...);
  return *std::move(result);
}

template <class Node>
Node build(Source& source) {
  if constexpr (is_leaf<Node>) {
    return source.plain<Node>();
  } else if constexpr (is_per_replica<Node>) {
    using Component = typename Node::value_type;
    if constexpr (is_leaf<Component>) {
      return source.per_replica<Component>();
    } else {
      return source.per_replica_nests<Component>();
    }
  } else if constexpr (is_mirrored<Node>) {
    return source.mirrored<typename Node::value_type>();
  } else if constexpr (std::same_as<Node, std::monostate>) {
    source.write("nothing");
    return {};
  } else if constexpr (is_tuple<Node>) {
    source.write("(");
    auto result = build_tuple<Node>(source, std::make_index_sequence<std::tuple_size_v<Node>>{});
    source.write(")");
    return result;
  } else if constexpr (is_array<Node>) {
    source.write("[");
    auto result = build_tuple<Node>(source, std::make_index_sequence<std::tuple_size_v<Node>>{});
    source.write("]");
    return result;
  } else if constexpr (is_record<Node>) {
    source.write("(");
    auto first = build<decltype(Node::first)>(source);
    source.write(",");
    Node result{std::move(first), build<decltype(Node::rest)>(source)};
    source.write(",)");
    return result;
  } else if constexpr (is_optional<Node>) {
    if (source.roll(4) == 0) {
      source.write("none");
      return std::nullopt;
    }
    source.write("some(");
    Node result(build<typename Node::value_type>(source));
    source.write(")");
    return result;
  } else if constexpr (is_variant<Node>) {
    const int index = source.roll(static_cast<int>(std::variant_size_v<Node>));
    source.write("#" + std::to_string(index) + "(");
    auto result = build_variant<Node>(source, static_cast<std::size_t>(index),
                                      std::make_index_sequence<std::variant_size_v<Node>>{});
    source.write(")");
    return result;
  } else if constexpr (is_map<Node>) {
    Node result;
    source.write("{");
    for (const char* key : {"a", "b", "c"}) {
      if (source.roll(2) == 0) continue;
      source.write(std::string(key) + "=");
      result.emplace(key, build<typename Node::mapped_type>(source));
      source.write(",");
    }
    source.write("}");
    return result;
  } else {
    Node result;
    source.write("[");
    for (int n = source.roll(4); n > 0; --n) {
      result.push_back(build<typename Node::value_type>(source));
      source.write(",");
    }
    source.write("]");
    return result;
  }
}

template <class Component>
PerReplica<Component> Source::per_replica_nests() {
  std::vector<Component> components;
  Dice after = structure_;
  std::string skeleton;
  for (int i = 0; i < range_.count; ++i) {
    Source part(call_, {range_.first + i, 1}, true, layout_);
    part.structure_ = structure_;
    part.leaves_.front().swap(leaves_[static_cast<std::size_t>(i)]);  // the leaves before, whose number is an index
    components.push_back(build<Component>(part));
    part.leaves_.front().swap(leaves_[static_cast<std::size_t>(i)]);
    after = part.structure_;
    skeleton = part.skeleton_;
  }
  structure_ = after;
  skeleton_ += skeleton;
  return PerReplica<Component>(std::move(components), range_.first);
}

/// The skeleton with the texts of `leaves`.
[[nodiscard]] std::string filled(const std::string& skeleton, const Leaves& leaves);

}  // namespace lockstep::test
