// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training of libtorch modules. Optional: the only public header that includes headers of PyTorch, 2.3 or
// newer. TORCH.md beside this file has a whole program.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/training/gradient_buckets.hpp>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lockstep {

namespace detail::libtorch {

[[noreturn]] inline void refuse(const std::string& text) { throw Error(Code::invalid_argument, text); }

/// `subject` begins the texts of errors: "view_of: the tensor".
inline DType dtype_of(at::ScalarType type, const std::string& subject) {
  switch (type) {
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kFloat: return DType::f32;
    case at::kDouble: return DType::f64;
    case at::kChar: return DType::i8;
    case at::kShort: return DType::i16;
    case at::kInt: return DType::i32;
    case at::kLong: return DType::i64;
    case at::kByte: return DType::u8;
    case at::ScalarType::UInt16: return DType::u16;
    case at::ScalarType::UInt32: return DType::u32;
    case at::ScalarType::UInt64: return DType::u64;
    case at::kBool: return DType::boolean;
    default:
      refuse(subject + " has elements of type " + at::toString(type) +
             "; the type must be Half, BFloat16, Float, Double, Bool, or an integer");
  }
}

inline Device device_of(at::Device device, const std::string& subject) {
  if (device.is_cpu()) return {};
  if (device.is_cuda()) return {DeviceKind::gpu, device.index()};
  refuse(subject + " is on device " + device.str() + "; the device must be cpu or cuda");
}

inline Shape shape_of(const at::Tensor& tensor) {
  return Shape(std::span<const std::int64_t>(tensor.sizes().data(), tensor.sizes().size()));
}

/// The view, with `data` as its elements.
inline TensorView view(const at::Tensor& tensor, void* (*data)(const at::Tensor&), const std::string& subject) {
  if (!tensor.defined()) refuse(subject + " is undefined");
  if (tensor.layout() != at::kStrided) {
    refuse(subject + " has layout " + c10::str(tensor.layout()) + "; the layout must be Strided");
  }
  if (!tensor.is_contiguous()) {
    refuse(subject + " has shape " + c10::str(tensor.sizes()) + " and strides " + c10::str(tensor.strides()) +
           ", which are not row-major without gaps; call contiguous() first");
  }
  if (tensor.is_conj() || tensor.is_neg())
    refuse(subject + " is a lazy conjugate or negative; call resolve_neg() first");
  const DType dtype = dtype_of(tensor.scalar_type(), subject);
  const Device device = device_of(tensor.device(), subject);
  return {data(tensor), dtype, shape_of(tensor), device};
}

inline void* written_data(const at::Tensor& tensor) { return tensor.mutable_data_ptr(); }

/// Makes later work of lockstep wait for the work that is now on PyTorch's current stream of the tensor's GPU.
template <class Stream>
void device_waits_for_torch(Device device, const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    device_waits_for(device, stream.native_handle());
  } else {
    stream.synchronize();  // older versions of PyTorch have no portable handle of a stream
  }
}
inline void order_after_torch(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  const c10::impl::VirtualGuardImpl torch_device(tensor.device().type());
  device_waits_for_torch(device_of(tensor.device(), "the tensor"), torch_device.getStream(tensor.device()));
}

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The tensors of `named`, each once, although two modules may share a tensor.
template <class Named>
void append_to(std::vector<NamedTensor>& list, std::unordered_set<at::TensorImpl*>& known, const Named& named) {
  for (const auto& entry : named) {
    const at::Tensor& tensor = entry.value();
    if (tensor.defined() && known.insert(tensor.unsafeGetTensorImpl()).second) list.push_back({entry.key(), tensor});
  }
}

inline std::vector<NamedTensor> parameters_and_buffers(const ::torch::nn::Module& module) {
  std::vector<NamedTensor> list;
  std::unordered_set<at::TensorImpl*> known;
  append_to(list, known, module.named_parameters());
  append_to(list, known, module.named_buffers());
  return list;
}

/// Broadcasts tensor k of the first list of `root` to tensor k of all other lists.
inline void broadcast(const Communicator& communicator, std::span<const std::vector<NamedTensor>> lists, int root) {
  const bool is_root = communicator.rank() == root;
  const std::size_t tensors = lists.front().size();
  std::vector<std::vector<ConstTensorView>> inputs(tensors);
  std::vector<std::vector<TensorView>> outputs(tensors);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // a tensor with other strides, and its row-major copy
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (std::size_t k = 0; k < tensors; ++k) {
      const NamedTensor& one = lists[i][k];
      at::Tensor dense = one.tensor;
      if (one.tensor.layout() == at::kStrided && !one.tensor.is_contiguous()) {
        dense = one.tensor.contiguous();
        copies.emplace_back(one.tensor, dense);
      }
      const TensorView target = view(dense, written_data, "broadcast_parameters: \"" + one.name + "\"");
      order_after_torch(dense);
      if (is_root && i == 0)
        inputs[k].emplace_back(target);
      else
        outputs[k].push_back(target);
    }
  }
  std::vector<Item> items;
  for (std::size_t k = 0; k < tensors; ++k) items.push_back({inputs[k], outputs[k]});
  ReduceOptions options;
  options.name = "broadcast_parameters";
  if (!items.empty()) communicator.broadcast(items, root, options);
  for (const auto& [tensor, copy] : copies) tensor.copy_(copy);
}

}  // namespace detail::libtorch

/// A view of the elements of `tensor`, which must outlive every use of the view. The device cuda:1 is gpu:1. Local.
/// Throws Error(invalid_argument), which states the reason, if the tensor is undefined, is not row-major without gaps,
/// has another layout than Strided, has elements of a type without a DType (complex, quantized, 8-bit floats), or is on
/// a device other than cpu and cuda. If the tensor is on a GPU, order the streams (see interop/cuda.hpp).
[[nodiscard]] inline TensorView view_of(at::Tensor& tensor) {
  return detail::libtorch::view(tensor, detail::libtorch::written_data, "view_of: the tensor");
}
/// As above, for elements that are only read.
[[nodiscard]] inline ConstTensorView view_of(const at::Tensor& tensor) {
  return detail::libtorch::view(
      tensor, [](const at::Tensor& read) { return const_cast<void*>(read.const_data_ptr()); }, "view_of: the tensor");
}

/// Copies all parameters and buffers of rank `root` to the modules of all ranks, as one operation. Collective.
/// All modules have the same parameters and buffers, in the same order; if shapes or dtypes differ between ranks, all
/// ranks throw Error(mismatch). Tensors that are not row-major are copied. A tensor with two names is sent once.
/// Throws Error(invalid_argument) for a tensor that view_of refuses; then the other ranks throw Error(unavailable).
inline void broadcast_parameters(const Communicator& communicator, ::torch::nn::Module& module, int root = 0) {
  detail::propagate(communicator, [&] {
    const at::NoGradGuard no_grad;
    const std::vector<std::vector<detail::libtorch::NamedTensor>> lists{
        detail::libtorch::parameters_and_buffers(module)};
    detail::libtorch::broadcast(communicator, lists, root);
  });
}
/// As above, if this rank has several modules, one for each of its replicas: the first module of `root` is copied to
/// all other modules. Throws Error(invalid_argument) if the list is empty or the modules have different numbers of
/// tensors.
inline void broadcast_parameters(const Communicator& communicator, std::span<::torch::nn::Module* const> modules,
                                 int root = 0) {
  detail::propagate(communicator, [&] {
    if (modules.empty()) detail::libtorch::refuse("broadcast_parameters: modules is empty");
    const at::NoGradGuard no_grad;
    std::vector<std::vector<detail::libtorch::NamedTensor>> lists;
    for (const ::torch::nn::Module* module : modules) {
      lists.push_back(detail::libtorch::parameters_and_buffers(*module));
      if (lists.back().size() == lists.front().size()) continue;
      detail::libtorch::refuse("broadcast_parameters: module " + std::to_string(lists.size() - 1) + " has " +
                               std::to_string(lists.back().size()) + " parameters and buffers, but module 0 has " +
                               std::to_string(lists.front().size()));
    }
    detail::libtorch::broadcast(communicator, lists, root);
  });
}

/// What `GradientReducer::finish` does if a backward has computed no gradient for a parameter.
enum class UnusedParameters : std::uint8_t {
  error,  ///< throws on all ranks
  zero,   ///< the replica contributes zeros; a gradient that no replica has computed is undefined after `finish`
};

struct GradientReducerOptions {
  /// Default: mean, as DistributedDataParallel. With partial batches of different sizes, divide each loss by the number
  /// of rows of the global batch, and use sum.
  ReduceOp op = ReduceOp::mean;
  /// See GradientBucketsOptions. Must be equal on all ranks.
  std::size_t bucket_bytes = GradientBucketsOptions().bucket_bytes;
  /// Must be equal on all ranks.
  UnusedParameters unused = UnusedParameters::error;
};

/// Reduces the gradients of a module over all replicas while the backward goes on, like the reducer of
/// DistributedDataParallel:
///
///   GradientReducer reducer(communicator, *module);
///   optimizer.zero_grad();
///   loss.backward();     // the reduction of a bucket starts when its gradients are computed
///   reducer.finish();    // all gradients are reduced: the same bits on every replica
///   optimizer.step();
///
/// The gradients are stored in lockstep's arena, and parameter.grad() is a view of them, so no copy is made if
/// gradients are set to zero by zero_grad(false). After zero_grad(true), autograd stores a new gradient, and the
/// reducer copies it to the arena and makes parameter.grad() the view again. On a GPU, gradients are memory of PyTorch.
/// Buckets are made of the parameters that require a gradient now, in reverse order. The module must keep the same
/// parameters, dtypes and devices: call module.to() before; after it, `finish` throws
/// Error(failed_precondition). Buffers are not reduced. The module is not changed, except for its gradients; backward
/// works as before when the reducer has been destroyed.
///
/// If a backward would change a gradient that is already being reduced, because the parameter has had a gradient
/// since the last `finish`, backward throws Error(failed_precondition), which names the parameter. It throws
/// Error(unimplemented) if backward is called with create_graph. After an exception in backward, between a backward and
/// `finish`, or in `finish` (except for unused parameters), create a new GradientReducer.
///
/// Thread-safety: different replicas may compute at the same time; otherwise one thread at a time.
class GradientReducer {
 public:
  /// For a rank with one replica. Collective: duplicates the communicator. Throws Error(invalid_argument) if this rank
  /// has more replicas, if no parameter requires a gradient, or if view_of refuses a parameter for another reason than
  /// its strides; then the other ranks throw Error(unavailable). If parameters differ between ranks, the first
  /// reduction throws Error(mismatch) on all ranks.
  GradientReducer(const Communicator& communicator, ::torch::nn::Module& module,
                  const GradientReducerOptions& options = {}) {
    ::torch::nn::Module* const modules[] = {&module};
    create(communicator, modules, options);
  }
  /// `modules[i]` is the module of local replica i. All modules have the same parameters, in the same order.
  GradientReducer(const Communicator& communicator, std::span<::torch::nn::Module* const> modules,
                  const GradientReducerOptions& options = {}) {
    create(communicator, modules, options);
  }

  /// Waits until all gradients are reduced. Collective; once after each backward, or after the last of several with
  /// `no_sync`. Throws the errors of the reductions. Throws Error(failed_precondition) on all ranks, which names the
  /// parameters, if replicas have unused parameters and UnusedParameters::error is set; gradients are then
  /// unspecified, and the next step can begin. For a rank with one replica; otherwise throws
  /// Error(failed_precondition).
  void finish() {
    if (state_->replicas.size() != 1) {
      throw Error(Code::failed_precondition,
                  "GradientReducer::finish: this rank has " + std::to_string(state_->replicas.size()) +
                      " replicas; each must call finish(ReplicaContext&) in the step function");
    }
    state_->complete_gradients(0);
    state_->buckets->finish(0);
    state_->end_step(0);
  }
  /// As above, for step functions of a strategy; every local replica calls it.
  void finish(ReplicaContext& replica) {
    const auto local = static_cast<std::size_t>(replica.local_replica());
    state_->complete_gradients(local);
    state_->buckets->finish(replica);
    state_->end_step(local);
  }

  /// As long as a result exists, backward accumulates gradients of this replica, and does not reduce them. A later
  /// backward without it reduces the sums. Local.
  class NoSync {
   public:
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { --*pauses_; }

   private:
    friend class GradientReducer;
    explicit NoSync(std::shared_ptr<int> pauses) : pauses_(std::move(pauses)) { ++*pauses_; }
    std::shared_ptr<int> pauses_;  // may outlive the reducer
  };
  [[nodiscard]] NoSync no_sync(std::size_t local_replica = 0) {
    return NoSync(state_->replicas.at(local_replica).pauses);
  }

  /// Number of gradients, from that of the last parameter on, that are already reduced in this step on this rank.
  /// Local: advances pending reductions without waiting. Throws the errors of the reductions.
  [[nodiscard]] std::size_t reduced_count() { return state_->buckets->reduced_count(); }
  /// Number of buckets. Local.
  [[nodiscard]] std::size_t bucket_count() const noexcept { return state_->buckets->bucket_count(); }
  /// Seconds in which local replica 0 has waited inside `finish`, summed over all steps. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return state_->buckets->wait_seconds(); }

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    at::Tensor gradient;  ///< the elements that are reduced
    decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>())) accumulator;
    bool is_computed = false;  ///< has a gradient in this step
    bool is_ready = false;     ///< may be reduced already
  };
  struct Replica {
    std::vector<Parameter> parameters;
    at::Tensor unused;  ///< f32, by parameter: 1 if this replica has no gradient; reduced with the last bucket
    std::shared_ptr<int> pauses = std::make_shared<int>(0);  ///< number of NoSyncs
  };
  struct State {
    void check_unmoved(const Parameter& parameter) const;
    void add_replica(const ::torch::nn::Module& module);
    void check_replicas(const Communicator& communicator) const;
    void before_accumulation(std::size_t replica, std::size_t k) const;
    void after_accumulation(std::size_t replica, std::size_t k, bool has_gradient);
    void complete_gradients(std::size_t replica);
    void end_step(std::size_t replica);

    GradientReducerOptions options;
    std::size_t replicas_of_all_ranks = 0;
    std::vector<Replica> replicas;
    std::optional<GradientBuckets> buckets;  // destroyed first: it waits for reductions of the gradients
  };
  /// The hooks do nothing when the reducer has been destroyed.
  struct BeforeAccumulation : ::torch::autograd::FunctionPreHook {
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& gradients) override {
      if (const auto alive = state.lock()) alive->before_accumulation(replica, k);
      return gradients;
    }
    std::weak_ptr<State> state;
    std::size_t replica = 0;
    std::size_t k = 0;
  };
  struct AfterAccumulation : ::torch::autograd::FunctionPostHook {
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                                const ::torch::autograd::variable_list& gradients) override {
      if (const auto alive = state.lock())
        alive->after_accumulation(replica, k, !gradients.empty() && gradients[0].defined());
      return outputs;
    }
    std::weak_ptr<State> state;
    std::size_t replica = 0;
    std::size_t k = 0;
  };

  void create(const Communicator& communicator, std::span<::torch::nn::Module* const> modules,
              const GradientReducerOptions& options);
  void add_hooks();

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

namespace detail::libtorch {

/// Zeros of the shape and type of `parameter`: in the arena, or on its GPU.
inline at::Tensor gradient_of(const NamedTensor& parameter) {
  const std::string subject = "GradientReducer: \"" + parameter.name + "\"";
  const DType dtype = dtype_of(parameter.tensor.scalar_type(), subject);
  const at::TensorOptions options = parameter.tensor.options().requires_grad(false);
  if (device_of(parameter.tensor.device(), subject).kind == DeviceKind::gpu)
    return at::zeros(parameter.tensor.sizes(), options);
  auto owner = std::make_shared<Tensor>(dtype, shape_of(parameter.tensor), arena_memory_resource());
  void* const elements = owner->data();
  return at::from_blob(elements, parameter.tensor.sizes(), [owner](void*) {}, options);
}

}  // namespace detail::libtorch

inline void GradientReducer::State::add_replica(const ::torch::nn::Module& module) {
  const std::vector<detail::libtorch::NamedTensor> all = detail::libtorch::parameters_and_buffers(module);
  Replica& replica = replicas.emplace_back();
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (!one->tensor.requires_grad()) continue;
    Parameter& parameter = replica.parameters.emplace_back();
    parameter.name = one->name;
    parameter.tensor = one->tensor;
    parameter.gradient = detail::libtorch::gradient_of(*one);
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined()) parameter.gradient.copy_(gradient);
    gradient = parameter.gradient;
    parameter.accumulator = ::torch::autograd::impl::grad_accumulator(parameter.tensor);
  }
  if (replica.parameters.empty())
    detail::libtorch::refuse("GradientReducer: no parameter of the module requires a gradient");
  const auto count = static_cast<std::int64_t>(replica.parameters.size());
  const at::TensorOptions floats = replica.parameters.front().tensor.options().dtype(at::kFloat).requires_grad(false);
  replica.unused = detail::libtorch::gradient_of({"unused", at::empty({count}, floats)});
}

inline void GradientReducer::State::check_replicas(const Communicator& communicator) const {
  if (replicas.size() != static_cast<std::size_t>(communicator.local_replicas())) {
    detail::libtorch::refuse("GradientReducer: there are " + std::to_string(replicas.size()) +
                             " modules, but this rank has " + std::to_string(communicator.local_replicas()) +
                             " replicas; pass one module for each replica of the rank");
  }
  if (options.op != ReduceOp::sum && options.op != ReduceOp::mean) {
    detail::libtorch::refuse("GradientReducer: op is " + std::string(to_string(options.op)) +
                             "; it must be sum or mean");
  }
}

/// Autograd is about to change the gradient.
inline void GradientReducer::State::before_accumulation(std::size_t replica, std::size_t k) const {
  const Parameter& parameter = replicas[replica].parameters[k];
  if (parameter.is_ready) {
    throw Error(Code::failed_precondition,
                "GradientReducer: this is a second backward for \"" + parameter.name +
                    "\", whose gradient is being reduced; call finish() after each backward, or accumulate gradients "
                    "under no_sync()");
  }
  if (at::GradMode::is_enabled()) {
    throw Error(Code::unimplemented, "GradientReducer: backward was called with create_graph, so the gradient of \"" +
                                         parameter.name + "\" is part of a graph and cannot be reduced in place");
  }
}

/// A parameter that module.to() has changed has another gradient than the one that is reduced.
inline void GradientReducer::State::check_unmoved(const Parameter& parameter) const {
  if (parameter.tensor.scalar_type() == parameter.gradient.scalar_type() &&
      parameter.tensor.device() == parameter.gradient.device())
    return;
  throw Error(Code::failed_precondition, "GradientReducer: the dtype or device of \"" + parameter.name +
                                             "\" has changed since the GradientReducer was created; create it after "
                                             "module.to()");
}

/// Autograd has stored the gradient.
inline void GradientReducer::State::after_accumulation(std::size_t replica, std::size_t k, bool has_gradient) {
  Parameter& parameter = replicas[replica].parameters[k];
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  if (!has_gradient || !gradient.defined()) return;
  if (!gradient.is_same(parameter.gradient)) {
    const at::NoGradGuard no_grad;
    parameter.gradient.copy_(gradient.layout() == at::kStrided ? gradient : gradient.to_dense());
    gradient = parameter.gradient;
  }
  parameter.is_computed = true;
  if (*replicas[replica].pauses > 0) return;
  parameter.is_ready = true;
  detail::libtorch::order_after_torch(parameter.gradient);
  buckets->ready(static_cast<int>(replica), k);
}

/// Makes a gradient of zeros for each unused parameter.
inline void GradientReducer::State::complete_gradients(std::size_t replica) {
  const at::NoGradGuard no_grad;
  std::vector<Parameter>& parameters = replicas[replica].parameters;
  for (const Parameter& parameter : parameters) check_unmoved(parameter);
  std::vector<float> unused(parameters.size());
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    unused[k] = parameters[k].is_computed ? 0.0F : 1.0F;
    if (parameters[k].is_ready) continue;
    if (!parameters[k].is_computed) parameters[k].gradient.zero_();
    detail::libtorch::order_after_torch(parameters[k].gradient);
  }
  replicas[replica].unused.copy_(at::from_blob(unused.data(), replicas[replica].unused.sizes(), at::kFloat));
  detail::libtorch::order_after_torch(replicas[replica].unused);
}

inline void GradientReducer::State::end_step(std::size_t replica) {
  std::string names;
  const at::Tensor unused = replicas[replica].unused.cpu();
  const float scale = options.op == ReduceOp::mean ? static_cast<float>(replicas_of_all_ranks) : 1.0F;
  for (std::size_t k = 0; k < replicas[replica].parameters.size(); ++k) {
    Parameter& parameter = replicas[replica].parameters[k];
    parameter.is_computed = parameter.is_ready = false;
    const auto lacking = static_cast<std::size_t>(unused.const_data_ptr<float>()[k] * scale + 0.5F);
    parameter.tensor.mutable_grad() = lacking == replicas_of_all_ranks ? at::Tensor() : parameter.gradient;
    if (lacking == 0) continue;
    names += (names.empty() ? "\"" : ", \"") + parameter.name + "\" on " + std::to_string(lacking);
  }
  if (names.empty() || options.unused == UnusedParameters::zero) return;
  throw Error(Code::failed_precondition,
              "GradientReducer::finish: backward has computed no gradient for " + names + " of " +
                  std::to_string(replicas_of_all_ranks) +
                  " replicas; the loss must depend on all parameters, or set unused to UnusedParameters::zero");
}

inline void GradientReducer::create(const Communicator& communicator, std::span<::torch::nn::Module* const> modules,
                                    const GradientReducerOptions& options) {
  detail::propagate(communicator, [&] {
    state_->options = options;
    state_->replicas_of_all_ranks = static_cast<std::size_t>(communicator.layout().replicas());
    const at::NoGradGuard no_grad;
    for (const ::torch::nn::Module* module : modules) state_->add_replica(*module);
    state_->check_replicas(communicator);
    std::vector<std::vector<TensorView>> views;
    for (Replica& replica : state_->replicas) {
      auto& list = views.emplace_back();
      for (Parameter& parameter : replica.parameters) list.push_back(view_of(parameter.gradient));
      // Last, so that it is in the bucket that `finish` reduces.
      list.push_back(view_of(replica.unused));
    }
    state_->buckets.emplace(communicator, views,
                            GradientBucketsOptions{.op = options.op, .bucket_bytes = options.bucket_bytes});
  });
  add_hooks();
}

inline void GradientReducer::add_hooks() {
  for (std::size_t i = 0; i < state_->replicas.size(); ++i) {
    for (std::size_t k = 0; k < state_->replicas[i].parameters.size(); ++k) {
      const auto place = [&](auto hook) {
        hook->state = state_;
        hook->replica = i;
        hook->k = k;
        return hook;
      };
      auto& accumulator = *state_->replicas[i].parameters[k].accumulator;
      accumulator.add_pre_hook(place(std::make_unique<BeforeAccumulation>()));
      accumulator.add_post_hook(place(std::make_unique<AfterAccumulation>()));
    }
  }
}

}  // namespace lockstep
