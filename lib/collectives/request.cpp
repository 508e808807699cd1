// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/request_state.hpp"

#include "base/leak.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep {

std::vector<detail::MemoryBlock> detail::blocks_of(std::span<const Item> items) {
  std::vector<MemoryBlock> blocks;
  const auto add = [&](const ConstTensorView& view) { blocks.push_back({view.data, view.byte_count()}); };
  for (const Item& item : items) {
    std::for_each(item.inputs.begin(), item.inputs.end(), add);
    std::for_each(item.outputs.begin(), item.outputs.end(), add);
  }
  return blocks;
}

Request::Request() noexcept = default;
Request::Request(Owned<State> state) noexcept : state_(std::move(state)) {}
Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    finish();
    state_ = std::move(other.state_);
  }
  return *this;
}

Request::~Request() { finish(); }

void Request::finish() noexcept {
  if (!state_) return;
  try {
    if (!state_->engine->may_wait(*state_->use.operation())) return leave_to_main_thread();
    wait();
  } catch (const std::exception& error) {
    detail::log_warning("a request that was destroyed without wait() failed: {}", error.what());
  }
}

/// Gives the state to the engine, because this thread cannot wait for the operation. Without memory, the state is
/// leaked.
void Request::leave_to_main_thread() {
  State* const state = state_.release();
  // the engine will own the state, so the state must not own the engine
  const std::shared_ptr<detail::Engine> engine = std::move(state->engine);
  try {
    engine->keep_until_done(state->use.operation(), std::shared_ptr<State>(state, [](State* kept) { delete kept; }));
  } catch (...) {
    detail::leak(state);
    throw;
  }
}

void Request::wait() {
  if (!state_) return;
  state_->engine->require_waiter(*state_->use.operation());
  // the outcome is reported only once: after this call the request is complete, even if the call throws
  const Owned<State> state = std::move(state_);
  state->engine->wait(*state->use.operation());
}

void Request::wait(void* stream) {
  if (!state_) return;
  detail::Operation& operation = *state_->use.operation();
  state_->engine->require_waiter(operation);
  bool is_complete = false;
  try {
    is_complete = state_->engine->wait_for_streams(operation);
  } catch (...) {
    state_.reset();
    throw;
  }
  if (is_complete) {
    state_.reset();
  } else {
    operation.on_streams()->hold_back(stream);
  }
}

bool Request::wait_for(std::chrono::nanoseconds duration) {
  if (!state_) return true;
  state_->engine->require_waiter(*state_->use.operation());
  const auto now = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> until;  // none if the end is beyond the range of the clock
  if (duration < std::chrono::steady_clock::time_point::max() - now) until = now + duration;
  try {
    if (!state_->engine->wait(*state_->use.operation(), until)) return false;
  } catch (...) {
    state_.reset();
    throw;
  }
  state_.reset();
  return true;
}

void Request::when_complete(Function<void(const Error*)> callback) {
  if (!state_) {
    callback(nullptr);
    return;
  }
  const auto held = std::make_shared<Owned<State>>(std::move(state_));
  // the engine will own the state, so the state must not own the engine
  const std::shared_ptr<detail::Engine> engine = std::move((*held)->engine);
  try {
    engine->when_done((*held)->use.operation(), [held, done = std::move(callback)](const Error* error) {
      held->reset();  // the operation may be used again, and its memory may be freed
      done(error);
    });
  } catch (...) {
    state_ = std::move(*held);
    state_->engine = engine;
    throw;
  }
}

bool Request::test() { return wait_for(std::chrono::nanoseconds(0)); }

}  // namespace lockstep
