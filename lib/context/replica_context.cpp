// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/context/replica_context.hpp>

#include "base/check.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"

#include <cstring>
#include <type_traits>
#include <typeinfo>

namespace lockstep {

ReplicaContext::ReplicaContext(Step& step, int local)
    : step_(step),
      local_(local),
      replica_(step.team().first_replica_id() + local),
      replicas_(step.team().replicas()),
      device_(step.team().devices()[static_cast<std::size_t>(local)]) {}

Strategy& ReplicaContext::strategy() const {
  StepAccess::check_use(*this, "strategy");
  return current_strategy();
}

void* ReplicaContext::stream() const {
  return device_.kind == DeviceKind::gpu ? detail::cuda::stream_of(device_) : nullptr;
}

void ReplicaContext::begin(std::string_view call) {
  StepAccess::check_use(*this, call);
  inputs_.clear();
  outputs_.clear();
  sparse_inputs_.clear();
  sparse_outputs_.clear();
  structure_.clear();
}

void ReplicaContext::add_input(const IndexedSlices& leaf) { sparse_inputs_.push_back(&leaf); }
void ReplicaContext::add_output(IndexedSlices& leaf) { sparse_outputs_.push_back(&leaf); }
void ReplicaContext::add_view(const ConstTensorView& view) { inputs_.push_back(view); }
void ReplicaContext::add_output_view(const TensorView& view) { outputs_.push_back(view); }
bool ReplicaContext::has_sparse_inputs() const noexcept { return !sparse_inputs_.empty(); }

void ReplicaContext::all_reduce_views(ReduceOp op, const CommunicationOptions& options) {
  step_.meet(local_, {.kind = CallKind::all_reduce,
                      .op = op,
                      .inputs = inputs_,
                      .outputs = outputs_,
                      .options = &options,
                      .structure = structure_});
}

std::span<const TensorView> ReplicaContext::all_reduce(const ReduceOpArgument& op, std::span<const TensorView> views,
                                                       const CommunicationOptions& options) {
  begin("all_reduce");
  const ReduceOp checked = op.op("all_reduce");
  inputs_.assign(views.begin(), views.end());
  step_.meet(local_, {CallKind::all_reduce, checked, inputs_, views, {}, {}, &options});
  return views;
}

void ReplicaContext::broadcast_views(int root, const CommunicationOptions& options) {
  if (root < 0 || root >= replicas_) {
    detail::throw_error(Code::invalid_argument, "broadcast: root is {}; it must be the id of a replica, from 0 to {}",
                        root, replicas_ - 1);
  }
  step_.meet(local_, {.kind = CallKind::broadcast,
                      .inputs = inputs_,
                      .outputs = outputs_,
                      .options = &options,
                      .root = root,
                      .structure = structure_});
}

std::vector<Tensor> ReplicaContext::gather_views(int axis, const CommunicationOptions& options) {
  std::vector<Tensor> results;
  GatherPart part{inputs_, axis, options, results};
  step_.meet(local_, {.kind = CallKind::all_gather,
                      .part = {&typeid(GatherPart), &part, nullptr},
                      .function = {nullptr, step_.team().hooks().all_gather},
                      .options = &options,
                      .structure = structure_});
  for (Tensor& result : results) detail::set_cpu(result, device_);
  return results;
}

void ReplicaContext::all_reduce_mixed(ReduceOp op, const CommunicationOptions& options) {
  MixedPart part{op, inputs_, outputs_, sparse_inputs_, sparse_outputs_, options};
  step_.meet(local_, {.kind = CallKind::all_reduce_mixed,
                      .op = op,
                      .part = {&typeid(MixedPart), &part, nullptr},
                      .function = {nullptr, step_.team().hooks().all_reduce_mixed},
                      .options = &options,
                      .structure = structure_});
}

void ReplicaContext::merge(detail::MergePart part, detail::MergeFunction function) {
  StepAccess::check_use(*this, "merge_call");
  step_.meet(local_,
             {.kind = CallKind::merge_call, .part = part, .function = function, .user = StepAccess::take_name(*this)});
}

namespace detail {

SavedContext::SavedContext() noexcept {
  static_assert(std::is_trivially_copyable_v<ThreadContext> && sizeof(ThreadContext) <= sizeof(bytes_));
  std::memcpy(bytes_.data(), &thread_context(), sizeof(ThreadContext));
}

SavedContext::~SavedContext() {
  std::memcpy(&thread_context(), bytes_.data(), sizeof(ThreadContext));
  leave_ended_scopes();
}

CurrentGpu::CurrentGpu(Device device) {
  if (device.kind != DeviceKind::gpu) return;
  cuda::Api& api = cuda::Backend::of_this_process().api();
  int before = 0;
  cuda::check(api, api.get_device(before), "cudaGetDevice");
  cuda::check(api, api.set_device(device.index), "cudaSetDevice");
  before_ = before;
}

CurrentGpu::~CurrentGpu() {
  if (before_ >= 0) static_cast<void>(cuda::Backend::of_this_process().api().set_device(before_));
}

ReplicaUpdate::ReplicaUpdate(const ReplicaContext& replica) {
  StepAccess::check_use(replica, "update");
  ThreadContext& context = thread_context();
  context.mode = context.replica != nullptr ? Mode::update : Mode::outside;
  context.component = replica.local_replica();
}

}  // namespace detail
}  // namespace lockstep
