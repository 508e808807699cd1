// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/plan.hpp>

#include "base/check.hpp"
#include "collectives/plan_state.hpp"
#include "collectives/request_state.hpp"
#include "device/host/arena.hpp"

#include <utility>

namespace lockstep {

std::shared_ptr<detail::Operation> Plan::State::next() {
  if (!arena_buffers.empty() && detail::Arena::of_this_process().frees() != frees) require_buffers();
  if (operation == nullptr || !operation->is_reusable()) operation = make();
  if (!operation->try_acquire()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: this plan's last run is not complete; wait for its request first",
                        detail::operation_name(operation->descriptor()));
  }
  return operation;
}

void Plan::State::require_buffers() {
  const detail::Arena& arena = detail::Arena::of_this_process();
  const std::uint64_t now = arena.frees();
  for (std::size_t i = 0; i < arena_buffers.size(); ++i) {
    if (arena.is_allocated(arena_buffers[i].data, arena_buffers[i].bytes)) continue;
    detail::throw_error(
        Code::failed_precondition,
        "{}: a buffer of {} bytes at {} was freed since the plan was prepared; tensors must live as long "
        "as their plans are run",
        detail::operation_name(operation->descriptor()), arena_buffers[i].bytes, arena_buffers[i].data);
  }
  frees = now;
}

Plan::Plan(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

void Plan::run() {
  const detail::OperationUse use(state_->next());
  state_->engine->run(use.operation());
}

Request Plan::run_async() {
  auto state = std::make_unique<Request::State>(state_->engine, state_->next(), state_->buffers);
  state->engine->post_async(state->use.operation());
  return Request(std::move(state));
}

}  // namespace lockstep
