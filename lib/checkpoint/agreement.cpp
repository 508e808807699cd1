// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/agreement.hpp"

#include "base/check.hpp"
#include "base/foreign_exception.hpp"
#include "collectives/internal_call.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <new>

namespace lockstep::detail {
namespace {

/// Errors of the collectives in this file name the operation that the user knows.
ReduceOptions checkpoint_call() { return internal_call("the save or restore of a checkpoint"); }

constexpr std::int64_t no_rank = std::numeric_limits<std::int64_t>::max();

/// Reduces `mine` over all ranks. Every local replica contributes `mine`, so `op` must be min or max.
template <class T>
T over_all_ranks(Communicator& communicator, T mine, ReduceOp op) {
  T result{};
  const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(communicator.local_replicas()),
                                            view_of(std::span<const T>(&mine, 1)));
  const TensorView output = view_of(std::span<T>(&result, 1));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_reduce(std::span(&item, 1), op, checkpoint_call());
  return result;
}

template <class T>
void broadcast(Communicator& communicator, int root, std::span<T> elements) {
  if (communicator.size() == 1 || elements.empty()) return;
  const TensorView view = view_of(elements);
  const ConstTensorView input(view);
  const bool is_root = communicator.rank() == root;
  const Item item{is_root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                  is_root ? std::span<const TensorView>() : std::span(&view, 1)};
  communicator.broadcast(std::span(&item, 1), root, checkpoint_call());
}

std::string broadcast_text(Communicator& communicator, int root, const std::string& text) {
  std::uint64_t size = text.size();
  broadcast(communicator, root, std::span(&size, 1));
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<std::size_t>(size));
  broadcast(communicator, root, std::span(bytes));
  return {bytes.begin(), bytes.end()};
}

struct RankFailure {
  Code code = Code::internal;
  std::string text;
};

RankFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.text()};
  } catch (const std::bad_alloc&) {
    return {Code::unavailable, "out of memory"};
  } catch (const std::exception& other) {
    return {Code::internal, other.what()};
  } catch (...) {
    return {Code::internal, text_of_foreign_exception()};
  }
}

}  // namespace

void rethrow_on_all_ranks(Communicator& communicator, const std::exception_ptr& mine) {
  const std::int64_t first =
      over_all_ranks<std::int64_t>(communicator, mine ? communicator.rank() : no_rank, ReduceOp::min);
  if (first == no_rank) return;
  const int rank = static_cast<int>(first);
  RankFailure failure;
  if (rank == communicator.rank()) failure = failure_of(mine);
  auto code = static_cast<std::uint8_t>(failure.code);
  broadcast(communicator, rank, std::span(&code, 1));
  std::string text = broadcast_text(communicator, rank, failure.text);
  if (communicator.size() > 1) text += fmt::format(" (found by rank {})", rank);
  detail::propagate(
      communicator,
      [&] {
        throw Error(static_cast<Code>(code), text,
                    {.rank = rank, .replica = -1, .operation = "checkpoint", .sequence = -1});
      },
      detail::FoundBy::all_ranks);
}

std::uint64_t from_rank_0(Communicator& communicator, std::uint64_t number) {
  broadcast(communicator, 0, std::span(&number, 1));
  return number;
}

std::string from_rank_0(Communicator& communicator, const std::string& text) {
  return broadcast_text(communicator, 0, text);
}

void require_same(Communicator& communicator, std::uint64_t number, const std::string& mine,
                  const std::function<std::string(const TextOfRank& first, const TextOfRank& other)>& difference) {
  const auto least = over_all_ranks<std::uint64_t>(communicator, number, ReduceOp::min);
  const auto most = over_all_ranks<std::uint64_t>(communicator, number, ReduceOp::max);
  if (least == most) return;
  const bool differs = number != from_rank_0(communicator, number);
  const auto other = static_cast<int>(
      over_all_ranks<std::int64_t>(communicator, differs ? communicator.rank() : no_rank, ReduceOp::min));
  const TextOfRank first_text{0, broadcast_text(communicator, 0, mine)};
  const TextOfRank other_text{other, broadcast_text(communicator, other, mine)};
  throw Error(Code::mismatch, difference(first_text, other_text),
              {.rank = other, .replica = -1, .operation = "checkpoint", .sequence = -1});
}

void add_over_ranks(Communicator& communicator, std::vector<std::uint32_t>& numbers) {
  if (communicator.size() == 1 || numbers.empty()) return;
  // the first local replica contributes `numbers`; every other local replica contributes zeros
  const std::vector<std::uint32_t> zeros(numbers.size());
  std::vector<ConstTensorView> inputs(static_cast<std::size_t>(communicator.local_replicas()),
                                      view_of(std::span<const std::uint32_t>(zeros)));
  inputs.front() = view_of(std::span<const std::uint32_t>(numbers));
  std::vector<std::uint32_t> sum(numbers.size());
  const TensorView output = view_of(std::span(sum));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_reduce(std::span(&item, 1), ReduceOp::sum, checkpoint_call());
  numbers = std::move(sum);
}

Tensor gather_rows_of_replicas(Communicator& communicator, std::span<const ConstTensorView> local) {
  const Shape row{local.front().element_count()};
  std::vector<ConstTensorView> inputs(local.begin(), local.end());
  for (ConstTensorView& input : inputs) input.shape = row;
  const std::int64_t replicas = communicator.layout().replicas();
  Tensor rows = Tensor::uninitialized(local.front().dtype, Shape{replicas * row[0]});
  if (row[0] != 0) {
    const TensorView output = rows.view();
    const Item item{inputs, std::span(&output, 1)};
    communicator.all_gather(std::span(&item, 1), checkpoint_call());
  }
  return rows.reshaped(Shape{replicas, row[0]});
}

}  // namespace lockstep::detail
