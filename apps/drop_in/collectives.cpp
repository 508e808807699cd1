// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the program. Each function decides from the communicator, the root, the operation and the number
// of bytes, and for reductions from the type, because MPI makes these equal on all ranks. It must not decide from
// anything else, such as MPI_IN_PLACE, the form of the types of data that only moves, counts that only some ranks know,
// or addresses: if one rank took a call over and another did not, both would wait for ever. What a rank finds wrong
// with its own arguments after the decision is an exception, which `serve` sends to the other ranks.

#include "drop_in/datatypes.hpp"
#include "drop_in/service.hpp"

#include <lockstep/collectives/location.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_view.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace lockstep::drop_in {
namespace {

ReduceOptions named(Call call) {
  ReduceOptions options;
  options.name = name_of(call);
  options.where = {};
  return options;
}

TensorView bytes_at(void* data, std::int64_t bytes) { return {data, DType::u8, Shape{bytes}, {}}; }
ConstTensorView bytes_at(const void* data, std::int64_t bytes) { return {data, DType::u8, Shape{bytes}}; }

/// The function of the MPI library for counts of type `Count`.
#if MPI_VERSION >= 4
#define LOCKSTEP_REAL(Count, name) std::get<std::is_same_v<Count, int> ? 0 : 1>(std::tuple(real.name, real.name##_c))
#else
#define LOCKSTEP_REAL(Count, name) real.name
#endif

/// One tensor of this rank. `has_input` and `has_output`: false on ranks that have none in a call with a root.
struct OneItem {
  ConstTensorView input;
  TensorView output;
  Item item;

  OneItem(const ConstTensorView& in, const TensorView& out, bool has_input = true, bool has_output = true)
      : input(in), output(out) {
    if (has_input) item.inputs = {&input, 1};
    if (has_output) item.outputs = {&output, 1};
  }
  OneItem(const OneItem&) = delete;
  OneItem& operator=(const OneItem&) = delete;
  [[nodiscard]] std::span<const Item> list() const { return {&item, 1}; }
};

/// No memory has so many elements; MPI may say what it says to such a count.
constexpr std::int64_t most_elements = std::int64_t{1} << 48;

/// A reduction of this call; none if MPI must make it.
struct ReductionCall {
  std::optional<Reduction> reduction;
  std::int64_t count;
  MPI_Datatype type;

  ReductionCall(std::int64_t elements, MPI_Datatype datatype, MPI_Op op)
      : reduction(elements > 0 && elements <= most_elements ? reduction_of(datatype, op) : std::nullopt),
        count(elements),
        type(datatype) {}
  [[nodiscard]] std::int64_t bytes() const {
    return reduction ? count * static_cast<std::int64_t>(reduction->bytes) : packed_bytes(count, type);
  }
  [[nodiscard]] bool can_take() const { return reduction.has_value(); }
  [[nodiscard]] bool is_plain() const { return reduction && reduction->form == Reduction::Form::plain; }
  [[nodiscard]] Shape shape(std::int64_t elements) const { return Shape{elements * reduction->parts}; }
};

/// Reduces `in` of all ranks to `out` of all ranks, or of rank `root` if it is not negative.
void reduce_with(const Group& group, Call call, const ReductionCall& what, const void* in, void* out, int root) {
  const Reduction& reduction = *what.reduction;
  const bool has_output = root < 0 || root == group.rank;
  auto options = named(call);
  if (reduction.form != Reduction::Form::plain && in == nullptr)
    throw BadArgument{MPI_ERR_BUFFER, "the address of the input is null"};
  const auto reduce = [&](const OneItem& one) {
    root < 0 ? group.communicator.all_reduce(one.list(), reduction.op, options)
             : group.communicator.reduce(one.list(), reduction.op, root, options);
  };
  switch (reduction.form) {
    case Reduction::Form::plain: {
      const Shape shape = what.shape(what.count);
      reduce(OneItem({in, reduction.dtype, shape}, {out, reduction.dtype, shape, {}}, true, has_output));
      return;
    }
    case Reduction::Form::logical: {
      auto* const truth = reinterpret_cast<std::uint8_t*>(staging(StagingUse::input, what.count));
      to_truth(reduction.dtype, in, what.count, truth);
      reduce(OneItem(bytes_at(static_cast<const void*>(truth), what.count), bytes_at(truth, what.count), true,
                     has_output));
      if (has_output) from_truth(truth, what.count, reduction.dtype, out);
      return;
    }
    case Reduction::Form::location: {
      std::byte* const values = staging(StagingUse::input, what.count * 8);
      std::byte* const indices = staging(StagingUse::output, what.count * 8);
      split_pairs(reduction, static_cast<const std::byte*>(in), what.count, values, indices);
      // only the name tells the ranks the root of the others
      const std::string name = root < 0 ? std::string(options.name) : fmt::format("{} to rank {}", options.name, root);
      options.name = name;
      const Shape shape{what.count};
      const TensorView value{values, reduction.dtype, shape, {}};
      const TensorView index{indices, reduction.index, shape, {}};
      reduction.op == ReduceOp::min ? minloc(group.communicator, value, index, options)
                                    : maxloc(group.communicator, value, index, options);
      if (has_output) join_pairs(reduction, values, indices, what.count, static_cast<std::byte*>(out));
      return;
    }
  }
}

template <class Count>
int allreduce(const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const ReductionCall what(count, type, op);
  return serve(
      Call::Allreduce, comm, what.can_take(), what.bytes(),
      [&](const Group& group) { reduce_with(group, Call::Allreduce, what, in == MPI_IN_PLACE ? out : in, out, -1); },
      [&] { return LOCKSTEP_REAL(Count, Allreduce)(in, out, count, type, op, comm); });
}

bool is_root_valid(int root, MPI_Comm comm) {
  int size = 0;
  return comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &size) == MPI_SUCCESS && root >= 0 && root < size;
}

template <class Count>
int reduce(const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  const ReductionCall what(count, type, op);
  return serve(
      Call::Reduce, comm, what.can_take() && is_root_valid(root, comm), what.bytes(),
      [&](const Group& group) { reduce_with(group, Call::Reduce, what, in == MPI_IN_PLACE ? out : in, out, root); },
      [&] { return LOCKSTEP_REAL(Count, Reduce)(in, out, count, type, op, root, comm); });
}

void reduce_scatter_equal(const Group& group, Call call, const ReductionCall& what, const void* in, void* out) {
  const DType dtype = what.reduction->dtype;
  const OneItem one({in == MPI_IN_PLACE ? out : in, dtype, what.shape(what.count * group.size)},
                    {out, dtype, what.shape(what.count), {}});
  group.communicator.reduce_scatter(one.list(), what.reduction->op, named(call));
}

template <class Count>
int reduce_scatter_block(const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const ReductionCall what(count, type, op);
  return serve(
      Call::Reduce_scatter_block, comm, what.is_plain(), what.bytes(),
      [&](const Group& group) { reduce_scatter_equal(group, Call::Reduce_scatter_block, what, in, out); },
      [&] { return LOCKSTEP_REAL(Count, Reduce_scatter_block)(in, out, count, type, op, comm); });
}

template <class Count>
int reduce_scatter(const void* in, void* out, const Count counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const int size = counts != nullptr ? ranks_of(comm) : 0;
  const bool is_valid =
      std::none_of(counts, counts + size, [](Count count) { return count < 0 || count > most_elements; });
  std::int64_t total = 0;
  for (int i = 0; is_valid && i < size; ++i) total += counts[i];
  const ReductionCall what(total, type, op);
  return serve(
      Call::Reduce_scatter, comm, what.is_plain(), what.bytes(),
      [&](const Group& group) {
        if (std::equal(counts + 1, counts + size, counts)) {
          reduce_scatter_equal(group, Call::Reduce_scatter, ReductionCall(counts[0], type, op), in, out);
          return;
        }
        // lockstep divides into equal parts only, so every rank gets the whole result, and copies its part
        std::byte* const whole = staging(StagingUse::output, what.bytes());
        reduce_with(group, Call::Reduce_scatter, what, in == MPI_IN_PLACE ? out : in, whole, -1);
        std::int64_t first = 0;
        for (int i = 0; i < group.rank; ++i) first += counts[i];
        const auto bytes = static_cast<std::int64_t>(what.reduction->bytes);
        const std::int64_t own = counts[group.rank] * bytes;
        if (own > 0) std::memcpy(out, whole + first * bytes, static_cast<std::size_t>(own));
      },
      [&] { return LOCKSTEP_REAL(Count, Reduce_scatter)(in, out, counts, type, op, comm); });
}

template <class Count>
int bcast(void* data, Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  const std::int64_t bytes = packed_bytes(count, type);
  return serve(
      Call::Bcast, comm, bytes > 0 && is_root_valid(root, comm), bytes,
      [&](const Group& group) {
        const Parts parts{data, type, 1, count};
        const bool is_root = root == group.rank;
        const Contiguous whole = is_root ? Contiguous::input(parts, comm) : Contiguous::output(parts);
        const TensorView view = bytes_at(whole.data(), bytes);
        group.communicator.broadcast(OneItem(view, view, is_root, !is_root).list(), root, named(Call::Bcast));
        if (!is_root) whole.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Bcast)(data, count, type, root, comm); });
}

/// The input of this rank in a gather to `all`: its part of `all` if `in` is MPI_IN_PLACE, otherwise its own buffer.
ConstTensorView input_of(const Group& group, const Contiguous& all, const void* in, std::int64_t in_count,
                         MPI_Datatype in_type, MPI_Comm comm) {
  if (in == MPI_IN_PLACE) {
    all.pack(group.rank, comm);
    return bytes_at(all.part(group.rank), all.bytes(group.rank));
  }
  const Contiguous own = Contiguous::input({in, in_type, 1, in_count}, comm);
  return bytes_at(own.data(), own.total());
}

template <class Count>
int allgather(const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, MPI_Datatype out_type,
              MPI_Comm comm) {
  const std::int64_t bytes = packed_bytes(out_count, out_type);  // of each rank
  return serve(
      Call::Allgather, comm, bytes > 0, bytes,
      [&](const Group& group) {
        const Contiguous all = Contiguous::output({out, out_type, group.size, out_count});
        const OneItem one(input_of(group, all, in, in_count, in_type, comm), bytes_at(all.data(), all.total()));
        group.communicator.all_gather(one.list(), named(Call::Allgather));
        all.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Allgather)(in, in_count, in_type, out, out_count, out_type, comm); });
}

template <class Count, class Place>
int allgatherv(const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count out_counts[],
               const Place places[], MPI_Datatype out_type, MPI_Comm comm) {
  const int size = out_counts != nullptr ? ranks_of(comm) : 0;
  std::int64_t total = 0;
  for (int i = 0; i < size; ++i) total += packed_bytes(out_counts[i], out_type);
  return serve(
      Call::Allgatherv, comm, total > 0, total,
      [&](const Group& group) {
        const Contiguous all = Contiguous::output({out, out_type, size, -1, out_counts, places});
        std::vector<std::int64_t> rows;
        for (int i = 0; i < size; ++i) rows.push_back(all.bytes(i));
        const OneItem one(input_of(group, all, in, in_count, in_type, comm), bytes_at(all.data(), all.total()));
        group.communicator.all_gather_v(one.list(), rows, named(Call::Allgatherv));
        all.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Allgatherv)(in, in_count, in_type, out, out_counts, places, out_type, comm); });
}

/// The bytes of one rank's part in a gather or a scatter, which all ranks know: the root from its own arguments, the
/// other ranks from theirs. 0 if the root is not valid.
std::int64_t bytes_of_part(int root, MPI_Comm comm, std::int64_t root_count, MPI_Datatype root_type, std::int64_t count,
                           MPI_Datatype type) {
  int rank = 0;
  if (!is_root_valid(root, comm) || PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS) return 0;
  return rank == root ? packed_bytes(root_count, root_type) : packed_bytes(count, type);
}

/// Where the root of a scatter of `all` gets its part. If `out` is MPI_IN_PLACE, that is memory that is not read: the
/// buffer of a sender must not be written.
Contiguous own_part(const Contiguous& all, int root, void* out, std::int64_t out_count, MPI_Datatype out_type) {
  if (out != MPI_IN_PLACE) return Contiguous::output({out, out_type, 1, out_count});
  const std::int64_t bytes = all.bytes(root);
  return Contiguous::output({staging(StagingUse::output, bytes), MPI_BYTE, 1, bytes});
}

template <class Count>
int gather(const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, MPI_Datatype out_type,
           int root, MPI_Comm comm) {
  const std::int64_t bytes = bytes_of_part(root, comm, out_count, out_type, in_count, in_type);
  return serve(
      Call::Gather, comm, bytes > 0, bytes,
      [&](const Group& group) {
        const auto options = named(Call::Gather);
        if (group.rank != root) {
          const Contiguous own = Contiguous::input({in, in_type, 1, in_count}, comm);
          group.communicator.gather(OneItem(bytes_at(own.data(), own.total()), {}, true, false).list(), root, options);
          return;
        }
        const Contiguous all = Contiguous::output({out, out_type, group.size, out_count});
        const OneItem one(input_of(group, all, in, in_count, in_type, comm), bytes_at(all.data(), all.total()));
        group.communicator.gather(one.list(), root, options);
        all.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Gather)(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

template <class Count>
int scatter(const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, MPI_Datatype out_type,
            int root, MPI_Comm comm) {
  const std::int64_t bytes = bytes_of_part(root, comm, in_count, in_type, out_count, out_type);
  return serve(
      Call::Scatter, comm, bytes > 0, bytes,
      [&](const Group& group) {
        const auto options = named(Call::Scatter);
        if (group.rank != root) {
          const Contiguous own = Contiguous::output({out, out_type, 1, out_count});
          group.communicator.scatter(OneItem({}, bytes_at(own.data(), own.total()), false).list(), root, options);
          own.unpack(comm);
          return;
        }
        const Contiguous all = Contiguous::input({in, in_type, group.size, in_count}, comm);
        const Contiguous own = own_part(all, root, out, out_count, out_type);
        const OneItem one(bytes_at(all.data(), all.total()), bytes_at(own.data(), own.total()));
        group.communicator.scatter(one.list(), root, options);
        own.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Scatter)(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

/// Sends the numbers of bytes of all parts, which only the root knows, to all ranks.
void share_rows(const Group& group, Call call, const Contiguous* all, int root, std::vector<std::int64_t>& rows) {
  rows.resize(static_cast<std::size_t>(group.size));
  const bool is_root = root == group.rank;
  for (int i = 0; is_root && i < group.size; ++i) rows[static_cast<std::size_t>(i)] = all->bytes(i);
  const TensorView view = view_of(std::span<std::int64_t>(rows));
  group.communicator.broadcast(OneItem(view, view, is_root, !is_root).list(), root, named(call));
}

template <class Count, class Place>
int gatherv(const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count out_counts[],
            const Place places[], MPI_Datatype out_type, int root, MPI_Comm comm) {
  return serve(
      Call::Gatherv, comm, is_root_valid(root, comm), 0,
      [&](const Group& group) {
        const auto options = named(Call::Gatherv);
        std::vector<std::int64_t> rows;
        if (group.rank != root) {
          share_rows(group, Call::Gatherv, nullptr, root, rows);
          const Contiguous own = Contiguous::input({in, in_type, 1, in_count}, comm);
          group.communicator.gather_v(OneItem(bytes_at(own.data(), own.total()), {}, true, false).list(), rows, root,
                                      options);
          return;
        }
        const Contiguous all = Contiguous::output({out, out_type, group.size, -1, out_counts, places});
        share_rows(group, Call::Gatherv, &all, root, rows);
        const OneItem one(input_of(group, all, in, in_count, in_type, comm), bytes_at(all.data(), all.total()));
        group.communicator.gather_v(one.list(), rows, root, options);
        all.unpack(comm);
      },
      [&] {
        return LOCKSTEP_REAL(Count, Gatherv)(in, in_count, in_type, out, out_counts, places, out_type, root, comm);
      });
}

template <class Count, class Place>
int scatterv(const void* in, const Count in_counts[], const Place places[], MPI_Datatype in_type, void* out,
             Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm) {
  return serve(
      Call::Scatterv, comm, is_root_valid(root, comm), 0,
      [&](const Group& group) {
        const auto options = named(Call::Scatterv);
        std::vector<std::int64_t> rows;
        if (group.rank != root) {
          share_rows(group, Call::Scatterv, nullptr, root, rows);
          const Contiguous own = Contiguous::output({out, out_type, 1, out_count});
          group.communicator.scatter_v(OneItem({}, bytes_at(own.data(), own.total()), false).list(), rows, root,
                                       options);
          own.unpack(comm);
          return;
        }
        const Contiguous all = Contiguous::input({in, in_type, group.size, -1, in_counts, places}, comm);
        share_rows(group, Call::Scatterv, &all, root, rows);
        const Contiguous own = own_part(all, root, out, out_count, out_type);
        const OneItem one(bytes_at(all.data(), all.total()), bytes_at(own.data(), own.total()));
        group.communicator.scatter_v(one.list(), rows, root, options);
        own.unpack(comm);
      },
      [&] {
        return LOCKSTEP_REAL(Count, Scatterv)(in, in_counts, places, in_type, out, out_count, out_type, root, comm);
      });
}

template <class Count>
int alltoall(const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, MPI_Datatype out_type,
             MPI_Comm comm) {
  const std::int64_t bytes = packed_bytes(out_count, out_type);  // of each pair of ranks
  return serve(
      Call::Alltoall, comm, bytes > 0, bytes,
      [&](const Group& group) {
        const Parts outs{out, out_type, group.size, out_count};
        const Contiguous to = Contiguous::output(outs);
        const Contiguous from = in == MPI_IN_PLACE ? Contiguous::input(outs, comm)
                                                   : Contiguous::input({in, in_type, group.size, in_count}, comm);
        const OneItem one(bytes_at(from.data(), from.total()), bytes_at(to.data(), to.total()));
        group.communicator.all_to_all(one.list(), named(Call::Alltoall));
        to.unpack(comm);
      },
      [&] { return LOCKSTEP_REAL(Count, Alltoall)(in, in_count, in_type, out, out_count, out_type, comm); });
}

template <class Count, class Place>
int alltoallv(const void* in, const Count in_counts[], const Place in_places[], MPI_Datatype in_type, void* out,
              const Count out_counts[], const Place out_places[], MPI_Datatype out_type, MPI_Comm comm) {
  return serve(
      Call::Alltoallv, comm, true, 0,
      [&](const Group& group) {
        const Parts outs{out, out_type, group.size, -1, out_counts, out_places};
        const Contiguous to = Contiguous::output(outs);
        const Contiguous from = in == MPI_IN_PLACE
                                    ? Contiguous::input(outs, comm, true)
                                    : Contiguous::input({in, in_type, group.size, -1, in_counts, in_places}, comm);
        std::vector<std::int64_t> sent;
        std::vector<std::int64_t> received;
        for (int i = 0; i < group.size; ++i) {
          sent.push_back(from.bytes(i));
          received.push_back(to.bytes(i));
        }
        const OneItem one(bytes_at(from.data(), from.total()), bytes_at(to.data(), to.total()));
        group.communicator.all_to_all_v(one.list(), sent, received, named(Call::Alltoallv));
        to.unpack(comm);
      },
      [&] {
        return LOCKSTEP_REAL(Count, Alltoallv)(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type,
                                               comm);
      });
}

int barrier(MPI_Comm comm) {
  return serve(
      Call::Barrier, comm, true, 0, [&](const Group& group) { group.communicator.barrier(named(Call::Barrier)); },
      [&] { return real.Barrier(comm); });
}

}  // namespace

void set_taken(lockstep_calls& taken) {
  // clang-format off
  taken = {
#define LOCKSTEP_TAKEN allreduce, reduce, reduce_scatter, reduce_scatter_block, bcast, allgather, allgatherv, gather, \
                       gatherv, scatter, scatterv, alltoall, alltoallv
      LOCKSTEP_TAKEN, barrier,
#if MPI_VERSION >= 4
      LOCKSTEP_TAKEN,
#endif
#undef LOCKSTEP_TAKEN
  };
  // clang-format on
}

}  // namespace lockstep::drop_in
