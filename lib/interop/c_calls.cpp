// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives and messages of the interface for C.

#include "interop/c_call.hpp"

#include <lockstep/collectives/reproducible.hpp>

#include "collectives/make_communicator.hpp"

#include <cstddef>
#include <limits>
#include <numeric>

namespace lockstep::interop {
namespace {

constexpr int dtype_number(DType dtype) noexcept { return static_cast<int>(dtype) + LOCKSTEP_F16; }
constexpr int op_number(ReduceOp op) noexcept { return static_cast<int>(op) + LOCKSTEP_SUM; }

static_assert(dtype_number(DType::f32) == LOCKSTEP_F32 && dtype_number(DType::i8) == LOCKSTEP_I8 &&
              dtype_number(DType::u8) == LOCKSTEP_U8 && dtype_number(DType::boolean) == LOCKSTEP_BOOL);
static_assert(dtype_count == LOCKSTEP_BOOL - LOCKSTEP_F16 + 1);
static_assert(op_number(ReduceOp::mean) == LOCKSTEP_MEAN && op_number(ReduceOp::prod) == LOCKSTEP_PROD &&
              op_number(ReduceOp::bxor) == LOCKSTEP_BXOR);
static_assert(reduce_op_count == LOCKSTEP_BXOR - LOCKSTEP_SUM + 1);

/// A tensor has at most 2^63 - 1 bytes, with elements of at most 8 bytes.
constexpr std::int64_t most_elements = std::numeric_limits<std::int64_t>::max() / 8;

}  // namespace

void CCall::refuse_with(const std::string& text) const {
  const std::source_location where = caller_.location();
  detail::Engine& engine = CommunicatorAccess::engine(communicator_);
  const Error error(Code::invalid_argument, fmt::format("{}: {}", name_, text),
                    {communicator_.rank(), -1, std::string(name_), -1});
  if (peers_.kind == Peers::Kind::all_ranks) {
    const detail::EngineCall target{engine, where};
    detail::propagate(target, [&] { throw Error(error); });
  }
  using Role = detail::PairOperation::Role;
  const bool has_peer = peers_.rank >= 0 && peers_.rank < communicator_.size() && peers_.rank != communicator_.rank();
  const Role role = peers_.kind == Peers::Kind::receiver ? Role::send : Role::receive;
  if (has_peer) engine.refuse_pair(role, peers_.rank, error.what(), where);
  throw Error(error);
}

DType CCall::dtype(int number) const {
  if (number >= LOCKSTEP_F16 && number <= LOCKSTEP_BOOL) return static_cast<DType>(number - LOCKSTEP_F16);
  refuse("dtype is {}, which is not a lockstep_dtype; the values are {} (LOCKSTEP_F16) to {} (LOCKSTEP_BOOL)", number,
         static_cast<int>(LOCKSTEP_F16), static_cast<int>(LOCKSTEP_BOOL));
}

ReduceOp CCall::op(int number) const {
  if (number >= LOCKSTEP_SUM && number <= LOCKSTEP_BXOR) return static_cast<ReduceOp>(number - LOCKSTEP_SUM);
  refuse("op is {}, which is not a lockstep_op; the values are {} (LOCKSTEP_SUM) to {} (LOCKSTEP_BXOR)", number,
         static_cast<int>(LOCKSTEP_SUM), static_cast<int>(LOCKSTEP_BXOR));
}

ReduceOp CCall::op(int number, DType dtype, const void* input, const void* output) const {
  const ReduceOp how = op(number);
  if (result_dtype(how, dtype) != dtype && input == output && input != nullptr) {
    refuse("output is the memory of input, but the mean of {} is {}; pass other memory for the output",
           to_string(dtype), to_string(result_dtype(how, dtype)));
  }
  return how;
}

std::int64_t CCall::elements(std::int64_t count, std::string_view argument, int parts) const {
  if (count < 0) refuse("{} is {}; it must not be negative", argument, count);
  if (count > most_elements / parts) {
    refuse("{} is {}; a tensor has at most {} elements, and this one has {} times {}", argument, count, most_elements,
           parts, argument);
  }
  return count * parts;
}

Counts CCall::counts(const std::int64_t* counts, std::string_view argument) const {
  if (counts == nullptr) refuse("{} is NULL", argument);
  const std::span ranks(counts, static_cast<std::size_t>(communicator_.size()));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    static_cast<void>(elements(ranks[r], fmt::format("{}[{}]", argument, r), communicator_.size()));
  }
  return {ranks, ranks[static_cast<std::size_t>(communicator_.rank())],
          std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0})};
}

}  // namespace lockstep::interop

using namespace lockstep::interop;  // NOLINT(google-build-using-namespace): the functions below are in no namespace

int lockstep_all_reduce(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                        int dtype, int op, const char* file, int line) {
  return run_call("all_reduce", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto how = call.op(op, type, input, output);
    const auto n = call.elements(count);
    call.communicator().all_reduce(input_of(input, type, n), output_of(output, result_dtype(how, type), n), how,
                                   call.options());
  });
}

int lockstep_all_reduce_async(const lockstep_communicator* communicator, const void* input, void* output,
                              std::int64_t count, int dtype, int op, lockstep_request** request, const char* file,
                              int line) {
  return run_call("all_reduce_async", communicator, file, line, [&](const CCall& call) {
    if (request == nullptr) call.refuse("request is NULL");
    *request = nullptr;
    const auto type = call.dtype(dtype);
    const auto how = call.op(op, type, input, output);
    const auto n = call.elements(count);
    auto made = std::make_unique<lockstep_request>();
    made->request = call.communicator().all_reduce_async(
        input_of(input, type, n), output_of(output, result_dtype(how, type), n), how, call.options());
    *request = made.release();
  });
}

int lockstep_reduce(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                    int dtype, int op, int root, const char* file, int line) {
  return run_call("reduce", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto how = call.op(op, type, input, output);
    const auto n = call.elements(count);
    call.communicator().reduce(input_of(input, type, n), output_of(output, result_dtype(how, type), n), how, root,
                               call.options());
  });
}

int lockstep_reduce_scatter(const lockstep_communicator* communicator, const void* input, void* output,
                            std::int64_t count, int dtype, int op, const char* file, int line) {
  return run_call("reduce_scatter", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto how = call.op(op, type, input, output);
    const auto n = call.elements(count);
    const auto all = call.elements_of_all(count);
    call.communicator().reduce_scatter(input_of(input, type, all), output_of(output, result_dtype(how, type), n), how,
                                       call.options());
  });
}

int lockstep_reproducible_dot(const lockstep_communicator* communicator, const void* x, const void* y,
                              std::int64_t count, int dtype, std::int64_t offset, double* result, const char* file,
                              int line) {
  return run_call("reproducible_dot", communicator, file, line, [&](const CCall& call) {
    if (result == nullptr) call.refuse("result is NULL");
    const auto n = static_cast<std::size_t>(call.elements(count));
    *result = call.with_floats(dtype, [&]<class T>(T) {
      const std::span<const T> xs(static_cast<const T*>(x), n);
      const std::span<const T> ys(static_cast<const T*>(y), n);
      return lockstep::reproducible::dot(call.communicator(), xs, ys, offset, call.options());
    });
  });
}

int lockstep_reproducible_sum(const lockstep_communicator* communicator, const void* x, std::int64_t count, int dtype,
                              std::int64_t offset, double* result, const char* file, int line) {
  return run_call("reproducible_sum", communicator, file, line, [&](const CCall& call) {
    if (result == nullptr) call.refuse("result is NULL");
    const auto n = static_cast<std::size_t>(call.elements(count));
    *result = call.with_floats(dtype, [&]<class T>(T) {
      return lockstep::reproducible::sum(call.communicator(), std::span(static_cast<const T*>(x), n), offset,
                                         call.options());
    });
  });
}

int lockstep_broadcast(const lockstep_communicator* communicator, void* values, std::int64_t count, int dtype, int root,
                       const char* file, int line) {
  return run_call("broadcast", communicator, file, line, [&](const CCall& call) {
    call.communicator().broadcast(output_of(values, call.dtype(dtype), call.elements(count)), root, call.options());
  });
}

int lockstep_all_gather(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                        int dtype, const char* file, int line) {
  return run_call("all_gather", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto part = call.elements(count);
    const auto all = call.elements_of_all(count);
    call.communicator().all_gather(input_of(input, type, part), output_of(output, type, all), call.options());
  });
}

int lockstep_all_gather_v(const lockstep_communicator* communicator, const void* input, void* output,
                          const std::int64_t* counts, int dtype, const char* file, int line) {
  return run_call("all_gather_v", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const Counts rows = call.counts(counts, "counts");
    call.communicator().all_gather_v(input_of(input, type, rows.here), output_of(output, type, rows.all), rows.of_ranks,
                                     call.options());
  });
}

int lockstep_gather(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                    int dtype, int root, const char* file, int line) {
  return run_call("gather", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto part = call.elements(count);
    const auto all = call.elements_of_all(count);
    call.communicator().gather(input_of(input, type, part), output_of(output, type, all), root, call.options());
  });
}

int lockstep_gather_v(const lockstep_communicator* communicator, const void* input, void* output,
                      const std::int64_t* counts, int dtype, int root, const char* file, int line) {
  return run_call("gather_v", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const Counts rows = call.counts(counts, "counts");
    call.communicator().gather_v(input_of(input, type, rows.here), output_of(output, type, rows.all), rows.of_ranks,
                                 root, call.options());
  });
}

int lockstep_scatter(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                     int dtype, int root, const char* file, int line) {
  return run_call("scatter", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto part = call.elements(count);
    const auto all = call.elements_of_all(count);
    call.communicator().scatter(input_of(input, type, all), output_of(output, type, part), root, call.options());
  });
}

int lockstep_scatter_v(const lockstep_communicator* communicator, const void* input, void* output,
                       const std::int64_t* counts, int dtype, int root, const char* file, int line) {
  return run_call("scatter_v", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const Counts rows = call.counts(counts, "counts");
    call.communicator().scatter_v(input_of(input, type, rows.all), output_of(output, type, rows.here), rows.of_ranks,
                                  root, call.options());
  });
}

int lockstep_all_to_all(const lockstep_communicator* communicator, const void* input, void* output, std::int64_t count,
                        int dtype, const char* file, int line) {
  return run_call("all_to_all", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const auto all = call.elements_of_all(count);
    call.communicator().all_to_all(input_of(input, type, all), output_of(output, type, all), call.options());
  });
}

int lockstep_all_to_all_v(const lockstep_communicator* communicator, const void* input, void* output,
                          const std::int64_t* send_counts, const std::int64_t* receive_counts, int dtype,
                          const char* file, int line) {
  return run_call("all_to_all_v", communicator, file, line, [&](const CCall& call) {
    const auto type = call.dtype(dtype);
    const Counts sent = call.counts(send_counts, "send_counts");
    const Counts received = call.counts(receive_counts, "receive_counts");
    call.communicator().all_to_all_v(input_of(input, type, sent.all), output_of(output, type, received.all),
                                     sent.of_ranks, received.of_ranks, call.options());
  });
}

int lockstep_barrier(const lockstep_communicator* communicator, const char* file, int line) {
  return run_call("barrier", communicator, file, line,
                  [&](const CCall& call) { call.communicator().barrier(call.options()); });
}

int lockstep_send(const lockstep_communicator* communicator, const void* values, std::int64_t count, int dtype,
                  int target, const char* file, int line) {
  return run_call("send", communicator, file, line,
                  [&](const CCall& call) {
                    call.communicator().send(input_of(values, call.dtype(dtype), call.elements(count)), target,
                                             call.options());
                  },
                  {Peers::Kind::receiver, target});
}

int lockstep_recv(const lockstep_communicator* communicator, void* values, std::int64_t count, int dtype, int source,
                  const char* file, int line) {
  return run_call("recv", communicator, file, line,
                  [&](const CCall& call) {
                    call.communicator().recv(output_of(values, call.dtype(dtype), call.elements(count)), source,
                                             call.options());
                  },
                  {Peers::Kind::sender, source});
}
