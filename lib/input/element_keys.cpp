// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/element_keys.hpp>

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace lockstep::input {
namespace {

std::string keys_in(std::span<const std::string> keys) {
  std::string text = "[";
  for (const std::string& key : keys) text += (text.size() > 1 ? ", \"" : "\"") + key + "\"";
  return text + "]";
}

/// The keys in `keys` that are not in `others`.
std::vector<std::string> keys_without(std::span<const std::string> keys, std::span<const std::string> others) {
  std::vector<std::string> result;
  for (const std::string& key : keys) {
    if (std::ranges::find(others, key) == others.end()) result.push_back(key);
  }
  return result;
}

}  // namespace

bool operator==(const Keys& a, const Keys& b) { return a.lengths == b.lengths && a.names == b.names; }

Keys::Keys() = default;
Keys::Keys(const Keys&) = default;
Keys::Keys(Keys&&) noexcept = default;
Keys& Keys::operator=(const Keys&) = default;
Keys& Keys::operator=(Keys&&) noexcept = default;
Keys::~Keys() = default;

void Keys::add_length(std::size_t length) { lengths.push_back(length); }
void Keys::add_name(const std::string& name) { names.push_back(name); }

KeyWalk::KeyWalk(const Keys& keys) noexcept : keys_(&keys) {}
KeyWalk::~KeyWalk() = default;

std::size_t KeyWalk::next_length() { return keys_->lengths.at(length_++); }
const std::string& KeyWalk::next_name() { return keys_->names.at(name_++); }

bool KeyWalk::begin_map(std::size_t size) {
  map_ = name_;
  map_size_ = next_length();
  return map_size_ == size;
}

bool KeyWalk::is_next(const std::string& name) { return next_name() == name; }

void KeyWalk::add_found(const std::string& name) { found_.push_back(name); }

void KeyWalk::throw_other_keys(const char* call) const {
  input::throw_other_keys(call, std::span(keys_->names).subspan(map_, map_size_), found_);
}

KeysOfChildren::KeysOfChildren() = default;
KeysOfChildren::~KeysOfChildren() = default;

void KeysOfChildren::add(const std::shared_ptr<const SharedKeys>& child) { children_.push_back(child); }

std::shared_ptr<const SharedKeys> KeysOfChildren::keys() const {
  return children_.size() == 1 ? children_.front() : std::make_shared<const SharedKeys>(children_);
}

std::shared_ptr<const SharedKeys> make_keys() { return std::make_shared<const SharedKeys>(); }

SharedKeys::SharedKeys() noexcept = default;

SharedKeys::SharedKeys(std::vector<std::shared_ptr<const SharedKeys>> parts) noexcept : parts_(std::move(parts)) {}

SharedKeys::~SharedKeys() { delete known_; }

const Keys* SharedKeys::find() const {
  // acquire, because another thread may have written the keys
  const Keys* const known = std::atomic_ref(known_).load(std::memory_order_acquire);
  if (known != nullptr || parts_.empty()) return known;
  Keys all;
  for (const auto& part : parts_) {
    const Keys* const some = part->find();
    if (some == nullptr) return nullptr;
    all.lengths.insert(all.lengths.end(), some->lengths.begin(), some->lengths.end());
    all.names.insert(all.names.end(), some->names.begin(), some->names.end());
  }
  return &set(std::move(all));
}

const Keys& SharedKeys::get() const {
  if (const Keys* const known = find()) return *known;
  detail::throw_error(Code::failed_precondition,
                      "dataset: the keys of the maps and the lengths of the lists in its elements are not known; a "
                      "Dataset that is made of a Pipeline needs an ElementForm that has them");
}

const Keys& SharedKeys::set(Keys keys) const {
  auto mine = std::make_unique<const Keys>(std::move(keys));
  const Keys* there = nullptr;
  if (std::atomic_ref(known_).compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel))
    return *mine.release();
  return *there;
}

void throw_other_keys(const char* call, std::span<const std::string> expected, std::span<const std::string> found) {
  std::string differences;
  const auto add = [&](std::span<const std::string> keys, const char* what) {
    if (!keys.empty()) differences += fmt::format("; {} {}", what, keys_in(keys));
  };
  add(keys_without(expected, found), "missing:");
  add(keys_without(found, expected), "not expected:");
  detail::throw_error(Code::invalid_argument,
                      "{}: a map in an element has the keys {}, but in other elements of the dataset it has {}{}; the "
                      "elements of a dataset must have the same keys",
                      call, keys_in(found), keys_in(expected), differences);
}

void throw_other_length(const char* call, std::size_t expected, std::size_t found) {
  detail::throw_error(Code::invalid_argument,
                      "{}: a list in an element has length {}, but in other elements of the dataset it has length {}; "
                      "the lists of a dataset must have the same length in all elements",
                      call, found, expected);
}

void check_same_keys(const char* call, const Keys& expected, const Keys& found) {
  if (expected.names != found.names) throw_other_keys(call, expected.names, found.names);
  for (std::size_t i = 0; i < expected.lengths.size(); ++i) {
    if (expected.lengths[i] != found.lengths.at(i)) throw_other_length(call, expected.lengths[i], found.lengths[i]);
  }
}

void throw_no_tensors(const char* call) {
  detail::throw_error(Code::invalid_argument,
                      "{}: an element has no tensors, because its maps and lists are empty; an element must have at "
                      "least one tensor",
                      call);
}

}  // namespace lockstep::input
