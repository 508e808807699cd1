// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/plan.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "collectives/call/check_items.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/plan_state.hpp"
#include "collectives/request_state.hpp"
#include "device/host/arena.hpp"

#include <utility>

namespace lockstep {
namespace {

/// A copy of a list of items and their views; the caller still owns the tensors. Copies of this object share the list.
class OwnedItems {
 public:
  explicit OwnedItems(std::span<const Item> items) : content_(std::make_shared<Content>()) {
    for (const Item& item : items) {
      content_->inputs.emplace_back(item.inputs.begin(), item.inputs.end());
      content_->outputs.emplace_back(item.outputs.begin(), item.outputs.end());
    }
    for (std::size_t i = 0; i < items.size(); ++i)
      content_->items.push_back({content_->inputs[i], content_->outputs[i]});
  }
  [[nodiscard]] std::span<const Item> get() const noexcept { return content_->items; }

 private:
  struct Content {
    std::vector<std::vector<ConstTensorView>> inputs;
    std::vector<std::vector<TensorView>> outputs;
    std::vector<Item> items;
  };
  std::shared_ptr<Content> content_;
};

}  // namespace

std::unique_ptr<Plan::State> Communicator::State::prepare(const std::shared_ptr<State>& owner, const Call& call,
                                                          std::span<const Item> items, const ReduceOptions& options) {
  auto state = std::make_unique<Plan::State>();
  state->engine = owner->engine;
  const OwnedItems owned(items);  // the lists of views are copied only once
  state->make = [owner, call, items = owned, order = options.order, name = std::string(options.name),
                 fail_after = options.fail_after, where = options.where] {
    const ReduceOptions how{order, name, fail_after, where};
    auto made = is_on_gpus(items.get()) ? owner->make_gpu_operation(call, items.get(), how)
                                        : owner->make_operation(call, items.get(), how);
    note_options(*made, how);
    return made;
  };
  if (owner->hashes != nullptr && !options.only_name) {
    state->log = [owner, call, owned](detail::Operation& operation) {
      owner->hashes->attach(operation, call, owned.get());
    };
  }
  if (is_on_gpus(items)) {
    static_cast<void>(
        detail::check_items(call, owner->layout, owner->rank, items));  // the other checks need the other ranks
  } else {
    state->operation = state->make();
  }
  const detail::Arena& arena = detail::Arena::of_this_process();
  state->frees = arena.frees();
  state->buffers = detail::blocks_of(items);
  const auto note = [&](const ConstTensorView& view, const detail::TensorName& name) {
    if (view.byte_count() != 0 && arena.contains(view.data, view.byte_count()))
      state->arena_buffers.push_back({{view.data, view.byte_count()}, name});
  };
  for (std::size_t k = 0; k < items.size(); ++k) {
    for (std::size_t i = 0; i < items[k].inputs.size(); ++i) note(items[k].inputs[i], {"input", i, k});
    for (std::size_t i = 0; i < items[k].outputs.size(); ++i) note(items[k].outputs[i], {"output", i, k});
  }
  return state;
}

std::shared_ptr<detail::Operation> Plan::State::next() {
  if (!arena_buffers.empty() && detail::Arena::of_this_process().frees() != frees) require_buffers();
  if (operation == nullptr || !operation->is_reusable()) operation = make();
  if (!operation->try_acquire()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: the previous run of this plan is not complete; call wait() on its request first",
                        detail::operation_name(operation->descriptor()));
  }
  try {
    if (log) log(*operation);
  } catch (...) {
    operation->release();
    throw;
  }
  return operation;
}

void Plan::State::require(const State* state) {
  if (state == nullptr) {
    detail::throw_error(Code::failed_precondition,
                        "run of a plan: the plan has been moved from; run the plan that it was moved to");
  }
}

void Plan::State::require_buffers() {
  const detail::Arena& arena = detail::Arena::of_this_process();
  const std::uint64_t now = arena.frees();
  for (const ArenaBuffer& buffer : arena_buffers) {
    if (arena.is_allocated(buffer.block.data, buffer.block.bytes)) continue;
    const detail::Descriptor& call = operation->descriptor();
    detail::throw_error(Code::failed_precondition,
                        "{}: the tensor that is {} of the plan ({}) was freed after the plan was prepared; keep the "
                        "tensors of a plan allocated until its last run",
                        detail::operation_name(call), detail::CallWords(call.kind, call.items).name(buffer.name),
                        detail::counted(buffer.block.bytes, "byte"));
  }
  frees = now;
}

Plan::Plan(Owned<State> state) noexcept : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

void Plan::run() {
  State::require(state_.get());
  const detail::OperationUse use(detail::propagate(*state_->engine, [this] { return state_->next(); }));
  state_->engine->run(use.operation());
}

Request Plan::run_async() {
  State::require(state_.get());
  return detail::propagate(*state_->engine, [this] {
    detail::OperationUse use(state_->next());
    auto state = std::make_unique<Request::State>(state_->engine, std::move(use), [this] { return state_->buffers; });
    state->engine->post_async(state->use.operation());
    return Request(std::move(state));
  });
}

}  // namespace lockstep
