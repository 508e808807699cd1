// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The element types of a Dataset: trees of tensors. Their structure is given by the type and, if there are maps or
// lists, by the keys of the maps and the lengths of the lists, which are equal for all elements of a dataset.

#pragma once

#include <lockstep/device/tensor.hpp>
#include <lockstep/input/element_keys.hpp>
#include <lockstep/input/pipeline.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace input {

/// Number of tensors in an element whose type does not give this number.
inline constexpr std::size_t by_keys = std::numeric_limits<std::size_t>::max();

/// Number of tensors in a T; `by_keys` if the keys and lengths determine it; 0 if T is not an element type.
template <class T>
struct leaf_count : std::integral_constant<std::size_t, 0> {};
template <>
struct leaf_count<Tensor> : std::integral_constant<std::size_t, 1> {};

/// The leaf_count of a node with these children.
template <class... Child>
inline constexpr std::size_t leaf_sum = [] {
  if (sizeof...(Child) == 0 || (... || (leaf_count<Child>::value == 0))) return std::size_t{0};
  if ((... || (leaf_count<Child>::value == by_keys))) return by_keys;
  return (std::size_t{0} + ... + leaf_count<Child>::value);
}();
/// The leaf_count of a map or list of children.
template <class Child>
inline constexpr std::size_t leaf_count_of_many = leaf_count<Child>::value == 0 ? 0 : by_keys;

template <class... Child>
struct leaf_count<std::tuple<Child...>> : std::integral_constant<std::size_t, leaf_sum<Child...>> {};
template <class A, class B>
struct leaf_count<std::pair<A, B>> : std::integral_constant<std::size_t, leaf_sum<A, B>> {};
template <class Child, std::size_t n>
struct leaf_count<std::array<Child, n>>
    : std::integral_constant<std::size_t,
                             n != 0 && leaf_count<Child>::value == by_keys ? by_keys : n * leaf_count<Child>::value> {};
template <class T>
  requires(detail::node_kind<T> == detail::NodeKind::map && std::same_as<typename T::key_type, std::string> &&
           requires { typename T::key_compare; })
struct leaf_count<T> : std::integral_constant<std::size_t, leaf_count_of_many<typename T::mapped_type>> {};
template <class T>
  requires(detail::node_kind<T> == detail::NodeKind::sequence)
struct leaf_count<T> : std::integral_constant<std::size_t, leaf_count_of_many<typename T::value_type>> {};
template <class T>
  requires requires { tree_members<T>::pointers; }
struct leaf_count<T> {
  static constexpr std::size_t value = []<class... Member>(std::tuple<Member T::*...>) {
    return leaf_sum<Member...>;
  }(tree_members<T>::pointers);
};

}  // namespace input

/// An element tree is a Tensor; a std::tuple, std::pair or std::array of element trees; a std::map from std::string to
/// element trees; a list (std::vector, std::list or std::deque) of element trees; or an aggregate of element trees that
/// opts in through tree_members.
template <class T>
concept ElementTree = std::default_initializable<T> && input::leaf_count<T>::value > 0;

namespace input {

/// Calls `fn` with the children of a tuple, array or aggregate.
template <class Node, class Fn>
void with_children(Node& node, const Fn& fn) {
  if constexpr (detail::node_kind<std::remove_const_t<Node>> == detail::NodeKind::aggregate) {
    detail::with_members(node, fn);
  } else {
    std::apply(fn, node);
  }
}

template <class T>
inline constexpr bool is_map = detail::node_kind<T> == detail::NodeKind::map;
template <class T>
inline constexpr bool is_list = detail::node_kind<T> == detail::NodeKind::sequence;

/// Appends the keys of `element` to `keys`.
template <class T>
void append_keys(const T& element, Keys& keys) {
  if constexpr (leaf_count<T>::value != by_keys) {
  } else if constexpr (is_map<T>) {
    keys.add_length(element.size());
    for (const auto& entry : element) keys.add_name(entry.first);
    for (const auto& entry : element) append_keys(entry.second, keys);
  } else if constexpr (is_list<T>) {
    keys.add_length(element.size());
    for (const auto& child : element) append_keys(child, keys);
  } else {
    with_children(element, [&](const auto&... child) { (append_keys(child, keys), ...); });
  }
}

/// Throws Error(invalid_argument) if `element` does not have the keys that follow in `walk`.
template <class T>
void check_keys(const T& element, KeyWalk& walk, const char* call) {
  if constexpr (leaf_count<T>::value != by_keys) {
  } else if constexpr (is_map<T>) {
    bool is_equal = walk.begin_map(element.size());
    for (const auto& entry : element) is_equal = is_equal && walk.is_next(entry.first);
    if (!is_equal) {
      for (const auto& entry : element) walk.add_found(entry.first);
      walk.throw_other_keys(call);
    }
    for (const auto& entry : element) check_keys(entry.second, walk, call);
  } else if constexpr (is_list<T>) {
    if (const std::size_t length = walk.next_length(); length != element.size())
      throw_other_length(call, length, element.size());
    for (const auto& child : element) check_keys(child, walk, call);
  } else {
    with_children(element, [&](const auto&... child) { (check_keys(child, walk, call), ...); });
  }
}

/// Adds the keys that follow in `walk` to `element`, which has none.
template <class T>
void add_keys(T& element, KeyWalk& walk) {
  if constexpr (leaf_count<T>::value != by_keys) {
  } else if constexpr (is_map<T>) {
    for (std::size_t count = walk.next_length(); count > 0; --count)
      element.emplace_hint(element.end(), walk.next_name(), typename T::mapped_type{});
    for (auto& entry : element) add_keys(entry.second, walk);
  } else if constexpr (is_list<T>) {
    element.resize(walk.next_length());
    for (auto& child : element) add_keys(child, walk);
  } else {
    with_children(element, [&](auto&... child) { (add_keys(child, walk), ...); });
  }
}

/// The conversion of elements of a dataset to lists of tensors, and back. Has no data if T gives the whole structure.
/// Otherwise copies share the keys, and the first element that is converted determines them. Thread-safety: any thread.
template <ElementTree T>
class ElementForm {
  static constexpr bool has_keys = leaf_count<T>::value == by_keys;
  struct None {};
  using Shared = std::conditional_t<has_keys, std::shared_ptr<const SharedKeys>, None>;

 public:
  /// The keys are not known yet.
  ElementForm() {
    if constexpr (has_keys) keys_ = make_keys();
  }
  /// The form of a tuple whose children have the forms `child`.
  template <class... Child>
    requires(sizeof...(Child) > 0)
  explicit ElementForm(const ElementForm<Child>&... child) {
    if constexpr (has_keys) {
      KeysOfChildren children;
      (child.add_to(children), ...);
      keys_ = children.keys();
    }
  }

  /// The tensors of `element`, from left to right. The returned tensors share memory with `element`, except that
  /// tensors on GPUs are copied to host memory, because datasets work in host memory. Throws Error(invalid_argument) if
  /// the keys differ from those of other elements; `call` is the prefix of the error text.
  [[nodiscard]] Leaves leaves_of(const T& element, const char* call) const {
    Leaves leaves;
    if constexpr (has_keys) {
      conform(element, call);
    } else {
      leaves.reserve(leaf_count<T>::value);
    }
    for_each_leaf(element, [&](const Tensor& leaf) {
      leaves.push_back(leaf.device().kind == DeviceKind::cpu ? leaf : leaf.to(Device{}));
    });
    if constexpr (has_keys) {
      if (leaves.empty()) throw_no_tensors(call);
    }
    return leaves;
  }

  /// The element that consists of the tensors `leaves`. The tensors are moved out of `leaves`, which must have as many
  /// tensors as an element.
  [[nodiscard]] T element_of(Leaves&& leaves) const {
    T element = empty_element();
    auto next = leaves.begin();
    for_each_leaf(element, [&](Tensor& leaf) { leaf = std::move(*next++); });
    return element;
  }

  /// An element of tensors that are default-constructed. The keys must be known.
  [[nodiscard]] T empty_element() const {
    T element{};
    if constexpr (has_keys) {
      KeyWalk walk(keys_->get());
      add_keys(element, walk);
    }
    return element;
  }

  /// Gives elements of the form `other` this form: their keys must be equal. Throws Error(invalid_argument) if they
  /// differ. If the keys of `other` are not known yet, returns false.
  bool adopt(const ElementForm& other, const char* call) const {
    if constexpr (has_keys) {
      const Keys* const keys = other.keys_->find();
      if (keys == nullptr) return false;
      check_same_keys(call, keys_->set(*keys), *keys);
    }
    return true;
  }

  [[nodiscard]] ElementStructure structure() const {
    if constexpr (has_keys) {
      return {0, keys_};
    } else {
      return {leaf_count<T>::value, nullptr};
    }
  }

 private:
  template <ElementTree Other>
  friend class ElementForm;

  void add_to([[maybe_unused]] KeysOfChildren& children) const {
    if constexpr (has_keys) children.add(keys_);
  }
  void conform(const T& element, const char* call) const {
    const Keys* keys = keys_->find();
    if (keys == nullptr) {
      Keys mine;
      append_keys(element, mine);
      keys = &keys_->set(std::move(mine));
    }
    KeyWalk walk(*keys);
    check_keys(element, walk, call);
  }

  [[no_unique_address]] Shared keys_;
};

}  // namespace input
}  // namespace lockstep
