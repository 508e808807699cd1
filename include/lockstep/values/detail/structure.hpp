// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The structure of a tree as text, as far as it is known only at run time: lengths, keys, and what is present. Ranks
// and replicas that reduce trees of different structures would combine leaves that do not belong together, so that the
// text is compared between them.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/values/detail/merge.hpp>
#include <lockstep/values/detail/tree.hpp>
#include <lockstep/values/per_replica.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep::detail {

/// A weight of the nodes of a tree whose structure is known only at run time. If it is less than 2, the number of
/// leaves determines the structure, as for a list of tensors.
template <class Tree>
constexpr int structure_weight() {
  using Plain = std::remove_cv_t<Tree>;
  constexpr auto kind = node_kind<Plain>;
  const auto sum = []<std::size_t... k>(std::index_sequence<k...>, auto child) {
    return (0 + ... + structure_weight<std::remove_pointer_t<decltype(child.template operator()<k>())>>());
  };
  if constexpr (kind == NodeKind::leaf) {
    if constexpr (is_distributed_values<Plain>) {
      return structure_weight<typename Plain::value_type>();
    } else {
      return 0;
    }
  } else if constexpr (kind == NodeKind::tuple) {
    return sum(std::make_index_sequence<std::tuple_size_v<Plain>>(),
               []<std::size_t k>() -> std::tuple_element_t<k, Plain>* { return nullptr; });
  } else if constexpr (kind == NodeKind::aggregate) {
    return sum(
        std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(tree_members<Plain>::pointers)>>>(),
        []<std::size_t k>() -> member_t<Plain, k>* { return nullptr; });
  } else if constexpr (kind == NodeKind::array) {
    return structure_weight<typename Plain::value_type>() * static_cast<int>(std::tuple_size_v<Plain>);
  } else if constexpr (kind == NodeKind::sequence || kind == NodeKind::optional) {
    return 1 + 2 * structure_weight<typename Plain::value_type>();
  } else {
    return kind == NodeKind::nothing ? 0 : 2;  // the keys of a map, the alternative of a variant
  }
}

/// A number as text; different numbers have different texts.
[[nodiscard]] LOCKSTEP_API std::string number_text(std::int64_t number);
[[nodiscard]] LOCKSTEP_API std::string number_text(std::uint64_t number);
[[nodiscard]] LOCKSTEP_API std::string number_text(float number);
[[nodiscard]] LOCKSTEP_API std::string number_text(double number);
[[nodiscard]] LOCKSTEP_API std::string number_text(long double number);
/// What `print(out, object)` writes to `out`.
[[nodiscard]] LOCKSTEP_API std::string printed_text(const void* object,
                                                    void (*print)(std::ostream& out, const void* object));

/// The key of a map as text; different keys have different texts.
template <class Key>
std::string key_text(const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
    return std::string(std::string_view(key));
  } else if constexpr (std::is_enum_v<Key>) {
    return key_text(static_cast<std::underlying_type_t<Key>>(key));
  } else if constexpr (std::same_as<Key, bool>) {
    return key ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<Key>) {
    return number_text(key);
  } else if constexpr (std::is_integral_v<Key>) {
    return number_text(static_cast<std::conditional_t<std::is_signed_v<Key>, std::int64_t, std::uint64_t>>(key));
  } else if constexpr (node_kind<Key> == NodeKind::tuple) {
    std::string text = "(";
    std::apply([&text](const auto&... part) { ((text += (text.size() > 1 ? ", " : "") + key_text(part)), ...); }, key);
    return text + ')';
  } else {
    static_assert(
        requires(std::ostream& out) { out << key; },
        "the ranks compare the keys of maps in values that are reduced or gathered: a key must be a text, a "
        "number, an enumerator, a pair or tuple of these, or a type with operator<<");
    return printed_text(&key, [](std::ostream& out, const void* object) { out << *static_cast<const Key*>(object); });
  }
}

/// Appends the text of a node: `*` for a leaf, `[3 x *]` for a list whose entries have one structure, `{a: *, b: [2 x
/// *]}` for a map.
template <class Tree>
void append_structure(const Tree& tree, std::string& text) {
  constexpr auto kind = node_kind<Tree>;
  const auto list = [&text](const char* begin, const char* end, const auto& add_all) {
    text += begin;
    bool is_first = true;
    add_all([&](const auto& child) {
      if (!is_first) text += ", ";
      is_first = false;
      append_structure(child, text);
    });
    text += end;
  };
  if constexpr (kind == NodeKind::leaf) {
    if constexpr (is_distributed_values<Tree>) {
      append_structure(tree.component(0), text);
    } else {
      text += '*';
    }
  } else if constexpr (kind == NodeKind::tuple) {
    list("(", ")", [&tree](const auto& add) { std::apply([&](const auto&... child) { (add(child), ...); }, tree); });
  } else if constexpr (kind == NodeKind::aggregate) {
    list("(", ")", [&tree](const auto& add) { with_members(tree, [&](const auto&... child) { (add(child), ...); }); });
  } else if constexpr (kind == NodeKind::map) {
    text += '{';
    for_each_entry(tree, [&](const auto& entry) {
      if (text.back() != '{') text += ", ";
      text += key_text(entry.first) + ": ";
      append_structure(entry.second, text);
    });
    text += '}';
  } else if constexpr (kind == NodeKind::optional) {
    tree ? append_structure(*tree, text) : static_cast<void>(text += "none");
  } else if constexpr (kind == NodeKind::variant) {
    text += '#' + std::to_string(tree.index()) + ' ';
    std::visit([&text](const auto& child) { append_structure(child, text); }, tree);
  } else if constexpr (kind == NodeKind::nothing) {
    text += '-';
  } else if constexpr (structure_weight<typename Tree::value_type>() == 0) {
    text += '[' + std::to_string(tree.size());
    if (tree.empty()) {
      text += ']';
      return;
    }
    text += " x ";
    append_structure(*tree.begin(), text);
    text += ']';
  } else {
    list("[", "]", [&tree](const auto& add) {
      for (const auto& child : tree) add(child);
    });
  }
}

/// The structures of a list of trees as text; empty if the number of leaves determines them. `tree_of` returns the tree
/// of an entry.
template <class Tree, class List, class TreeOf>
std::string structures_of([[maybe_unused]] const List& list, [[maybe_unused]] const TreeOf& tree_of) {
  std::string text;
  if constexpr (structure_weight<Tree>() > 0) {
    for (const auto& entry : list) {
      text += text.empty() ? "[" : ", ";
      append_structure(tree_of(entry), text);
    }
    text += ']';
  }
  return text;
}

/// The structure of `tree` as text; empty if the number of leaves determines the structure.
template <class Tree>
std::string structure_of([[maybe_unused]] const Tree& tree) {
  std::string text;
  if constexpr (structure_weight<Tree>() > 1) append_structure(tree, text);
  return text;
}

}  // namespace lockstep::detail
