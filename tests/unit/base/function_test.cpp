// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Function and Owned, which take the places of std::function and std::unique_ptr in public headers.

#include <lockstep/base/error.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/base/owned.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace lockstep::test {
namespace {

struct Counter {
  int count = 0;
  int add(int more) { return count += more; }
};

struct Base {
  explicit Base(int& destroyed) : destroyed_(&destroyed) {}
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;
  virtual ~Base() { ++*destroyed_; }

 private:
  int* destroyed_;
};
struct Derived : Base {
  using Base::Base;
};

int doubled(int value) { return 2 * value; }

TEST(Function, calls_lambdas_functions_and_members) {
  const Function<int(int)> of_lambda = [offset = 3](int value) { return value + offset; };
  EXPECT_EQ(of_lambda(4), 7);
  const Function<int(int)> of_function = doubled;
  EXPECT_EQ(of_function(4), 8);
  const Function<int(int)> of_standard = std::function<int(int)>(doubled);
  EXPECT_EQ(of_standard(5), 10);
  Counter counter;
  const Function<int(Counter&, int)> of_member = &Counter::add;
  EXPECT_EQ(of_member(counter, 5), 5);
  const Function<int(Counter*)> of_data = &Counter::count;
  EXPECT_EQ(of_data(&counter), 5);
}

TEST(Function, ignores_the_result_if_its_own_is_void) {
  int calls = 0;
  const Function<void(int)> function = [&calls](int more) { return calls += more; };
  function(2);
  EXPECT_EQ(calls, 2);
}

TEST(Function, passes_references_and_objects_that_cannot_be_copied) {
  const Function<void(std::string&, std::unique_ptr<int>)> append = [](std::string& text, std::unique_ptr<int> number) {
    text += std::to_string(*number);
  };
  std::string text = "n";
  append(text, std::make_unique<int>(7));
  EXPECT_EQ(text, "n7");
}

TEST(Function, is_empty_without_a_callable) {
  using IntFunction = Function<int(int)>;
  EXPECT_FALSE(IntFunction());
  EXPECT_FALSE(IntFunction(nullptr));
  EXPECT_FALSE(IntFunction(static_cast<int (*)(int)>(nullptr)));
  EXPECT_FALSE(IntFunction(std::function<int(int)>()));
  EXPECT_TRUE(IntFunction() == nullptr);
  EXPECT_TRUE(IntFunction(doubled) != nullptr);
}

TEST(Function, throws_if_it_is_called_without_a_callable) {
  const Function<void()> function;
  try {
    function();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
  }
}

TEST(Function, shares_its_callable_with_its_copies) {
  const Function<int()> function = [count = 0]() mutable { return ++count; };
  const Function<int()> copy = function;  // NOLINT(performance-unnecessary-copy-initialization): is what is tested
  EXPECT_EQ(function(), 1);
  EXPECT_EQ(copy(), 2);
}

TEST(Function, destroys_its_callable_with_the_last_copy) {
  const auto held = std::make_shared<int>(0);
  Function<void()> function = [held] {};
  Function<void()> copy = function;
  EXPECT_EQ(held.use_count(), 2);
  function = nullptr;
  EXPECT_FALSE(function);
  EXPECT_EQ(held.use_count(), 2);
  Function<void()> moved = std::move(copy);
  EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move): is what is tested
  moved = {};
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Owned, destroys_its_object_once) {
  int destroyed = 0;
  {
    Owned<Base> owned = std::make_unique<Derived>(destroyed);
    Owned<Base> moved = std::move(owned);
    EXPECT_FALSE(owned);  // NOLINT(bugprone-use-after-move): is what is tested
    EXPECT_TRUE(moved);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(Owned, destroys_the_object_that_an_assignment_replaces) {
  int destroyed = 0;
  Owned<Base> owned = std::make_unique<Derived>(destroyed);
  Owned<Base>& same = owned;
  owned = std::move(same);
  EXPECT_EQ(destroyed, 0);
  owned = Owned<Base>(std::make_unique<Derived>(destroyed));
  EXPECT_EQ(destroyed, 1);
  owned.reset();
  EXPECT_EQ(destroyed, 2);
  EXPECT_TRUE(owned == nullptr);
}

TEST(Owned, releases_its_object) {
  int destroyed = 0;
  Owned<Base> owned = std::make_unique<Derived>(destroyed);
  const std::unique_ptr<Base> released(owned.release());
  EXPECT_EQ(owned.get(), nullptr);
  EXPECT_EQ(destroyed, 0);
}

}  // namespace
}  // namespace lockstep::test
