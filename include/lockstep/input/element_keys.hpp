// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of an element's structure that its type does not give: the keys of maps and the lengths of lists. They
// belong to the dataset, whose elements all have the same keys and lengths. A list has no keys.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

/// The keys of all maps and the lengths of all maps and lists in an element, depth first: those of a node are before
/// those of its children. Value type.
struct LOCKSTEP_API Keys {
  Keys();
  Keys(const Keys&);
  Keys(Keys&&) noexcept;
  Keys& operator=(const Keys&);
  Keys& operator=(Keys&&) noexcept;
  ~Keys();
  void add_length(std::size_t length);
  void add_name(const std::string& name);

  std::vector<std::size_t> lengths;  ///< by map and list
  std::vector<std::string> names;    ///< the keys of the maps, map after map
};
[[nodiscard]] LOCKSTEP_API bool operator==(const Keys& a, const Keys& b);

/// Reads Keys in their order.
class LOCKSTEP_API KeyWalk {
 public:
  explicit KeyWalk(const Keys& keys) noexcept;
  KeyWalk(const KeyWalk&) = delete;
  KeyWalk& operator=(const KeyWalk&) = delete;
  ~KeyWalk();
  [[nodiscard]] std::size_t next_length();
  [[nodiscard]] const std::string& next_name();
  /// Begins a map of an element that has `size` entries. Returns whether this is the length of the map.
  [[nodiscard]] bool begin_map(std::size_t size);
  /// Whether the next key of the map is `name`.
  [[nodiscard]] bool is_next(const std::string& name);
  /// Adds a key that the map of the element has, for `throw_other_keys`.
  void add_found(const std::string& name);
  /// Throws Error(invalid_argument): the map has the keys of `add_found`. `call` is the prefix of the error text.
  [[noreturn]] void throw_other_keys(const char* call) const;

 private:
  const Keys* keys_;
  std::size_t length_ = 0;
  std::size_t name_ = 0;
  std::size_t map_ = 0;  // first name of the map that has begun
  std::size_t map_size_ = 0;
  std::vector<std::string> found_;
};

/// The Keys of a dataset's elements. They become known with the first element at the latest, and do not change.
/// Thread-safety: any thread.
class LOCKSTEP_API SharedKeys {
 public:
  SharedKeys() noexcept;
  /// The keys of tuples; `parts` are the keys of the tuple's children.
  explicit SharedKeys(std::vector<std::shared_ptr<const SharedKeys>> parts) noexcept;
  SharedKeys(const SharedKeys&) = delete;
  SharedKeys& operator=(const SharedKeys&) = delete;
  ~SharedKeys();

  /// Null if the keys are not known yet.
  [[nodiscard]] const Keys* find() const;
  /// The keys of elements that have been read, which are therefore known.
  /// Throws Error(failed_precondition) if the elements were made by a transformation that does not tell their keys.
  [[nodiscard]] const Keys& get() const;
  /// Makes `keys` the keys, unless keys are known already. Returns the keys.
  const Keys& set(Keys keys) const;

 private:
  std::vector<std::shared_ptr<const SharedKeys>> parts_;
  mutable const Keys* known_ = nullptr;  // atomic; set once
};

/// The SharedKeys of a dataset's elements, and those of a tuple whose children have the keys that are added.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<const SharedKeys> make_keys();
class LOCKSTEP_API KeysOfChildren {
 public:
  KeysOfChildren();
  KeysOfChildren(const KeysOfChildren&) = delete;
  KeysOfChildren& operator=(const KeysOfChildren&) = delete;
  ~KeysOfChildren();
  void add(const std::shared_ptr<const SharedKeys>& child);
  [[nodiscard]] std::shared_ptr<const SharedKeys> keys() const;

 private:
  std::vector<std::shared_ptr<const SharedKeys>> children_;
};

/// Number of tensors in an element. If `keys` is set, they determine the number, and `leaves` has no meaning.
struct ElementStructure {
  std::size_t leaves = 0;
  std::shared_ptr<const SharedKeys> keys = nullptr;
};

/// Throws Error(invalid_argument): a map in an element has the keys `found`, but other elements have the keys
/// `expected`. `call` is the prefix of the error text.
[[noreturn]] LOCKSTEP_API void throw_other_keys(const char* call, std::span<const std::string> expected,
                                                std::span<const std::string> found);
/// Throws Error(invalid_argument): the same for the length of a list.
[[noreturn]] LOCKSTEP_API void throw_other_length(const char* call, std::size_t expected, std::size_t found);
/// Throws one of these errors if `found` differs from `expected`.
LOCKSTEP_API void check_same_keys(const char* call, const Keys& expected, const Keys& found);
/// Throws Error(invalid_argument): an element has no tensors, because its maps and lists are empty.
[[noreturn]] LOCKSTEP_API void throw_no_tensors(const char* call);

}  // namespace lockstep::input
