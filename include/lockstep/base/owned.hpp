// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace lockstep {

/// Owns an object of an incomplete type, as std::unique_ptr does. A std::unique_ptr member costs a hundred
/// instantiations per type in every file that includes its header.
template <class T>
class Owned {
 public:
  Owned() noexcept = default;
  // NOLINTBEGIN(google-explicit-constructor): as std::unique_ptr
  Owned(std::nullptr_t /*none*/) noexcept {}
  /// Takes the object of a std::unique_ptr<T>, or of a pointer to a class that is derived from T.
  template <class Pointer>
    requires(!std::is_lvalue_reference_v<Pointer> && !std::same_as<Pointer, Owned> &&
             requires(Pointer& pointer) {
               { pointer.release() } -> std::convertible_to<T*>;
             })
  Owned(Pointer&& pointer) noexcept : object_(pointer.release()) {}
  // NOLINTEND(google-explicit-constructor)
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    T* const object = other.release();  // first, so that an assignment to itself changes nothing
    delete std::exchange(object_, object);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    static_assert(requires { sizeof(T); }, "the type must be complete where its owner is destroyed");
    delete object_;
  }

  [[nodiscard]] T* get() const noexcept { return object_; }
  [[nodiscard]] T& operator*() const noexcept { return *object_; }
  [[nodiscard]] T* operator->() const noexcept { return object_; }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }
  [[nodiscard]] friend bool operator==(const Owned& owned, std::nullptr_t) noexcept { return owned.object_ == nullptr; }
  [[nodiscard]] T* release() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept { delete release(); }

 private:
  T* object_ = nullptr;
};

}  // namespace lockstep
