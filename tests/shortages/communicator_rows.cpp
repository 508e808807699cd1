// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of a communicator.

#include <lockstep/base/error.hpp>

#include "collectives/make_communicator.hpp"
#include "shortages/trial.hpp"
#include "support/ranks.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::shortages {
namespace {

using test::minutes_to_fail;

constexpr std::size_t elements = 6;
constexpr std::array<std::int64_t, 3> rows{1, 2, 3};

/// The tensors of a call of rank number `rank`, of at most 3 ranks.
struct Tensors {
  explicit Tensors(const Rank& rank)
      : own_rows(static_cast<std::size_t>(rows[static_cast<std::size_t>(rank.number())])) {}
  std::vector<float> input = std::vector<float>(elements, 1.0F);
  std::vector<float> output = std::vector<float>(elements);
  std::vector<float> inputs = std::vector<float>(3 * elements, 1.0F);
  std::vector<float> outputs = std::vector<float>(3 * elements);
  std::vector<float> own_rows;
};

void create(Rank& rank) {
  std::optional<Communicator> made;
  rank.tries_once([&] { made = CommunicatorAccess::make(rank.take_transport(), minutes_to_fail()); });
  try {
    if (made) made->barrier();
  } catch (const Error& error) {
    if (error.code() != Code::unavailable || error.rank() != 0) throw;
  }
}

void split(Rank& rank) {
  rank.tries([&] { static_cast<void>(rank.communicator().split(0, rank.number(), minutes_to_fail())); });
}

void duplicate(Rank& rank) {
  rank.tries([&] { static_cast<void>(rank.communicator().duplicate(minutes_to_fail())); });
}

void self(Rank& rank) {
  rank.tries_alone([&] { static_cast<void>(self_communicator(minutes_to_fail())); });
}

/// The memory that processes of a node share.
void shared_memory(Rank& rank) {
  rank.tries_alone([] {
    detail::ProcessGroupOffer offer(true);
    const std::array members{offer.introduction(), offer.introduction()};
    if (!offer.open(0, members)) return;
    const auto group = offer.take();
    group->reserve_inputs(1000);
  });
}

void recover(Rank& rank) {
  // another rank waits for one that has no memory for recover, which must call it again
  const Communicator& comm = rank.communicator();
  bool has_memory = false;
  rank.tries([&] {
    if (rank.number() != 0 || has_memory) return static_cast<void>(comm.recover());
    has_memory = true;
    try {
      static_cast<void>(comm.recover());
    } catch (...) {
      static_cast<void>(comm.recover());
      throw;
    }
  });
}

/// How a collective is called.
enum class How : std::uint8_t { blocking, waited, with_callback };

void end(Request request, How how) {
  if (how == How::waited) return request.wait();
  std::optional<Error> failure;
  std::latch done(1);
  request.when_complete([&](const Error* error) {
    if (error != nullptr) failure = *error;
    done.count_down();
  });
  done.wait();
  if (failure) throw *failure;
}

template <How how>
void all_reduce(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.all_reduce(t.input, t.output, ReduceOp::sum)
                         : end(comm.all_reduce_async(t.input, t.output, ReduceOp::sum), how);
  });
}

void large_all_reduce(Rank& rank) {
  std::vector<float> values(100'000, 1.0F);
  rank.tries([&] { rank.communicator().all_reduce(values, ReduceOp::sum); });
}

void prepare_all_reduce(Rank& rank) {
  Tensors t(rank);
  rank.tries([&] { static_cast<void>(rank.communicator().prepare_all_reduce(t.input, t.output, ReduceOp::sum)); });
}

template <How how>
void plan(Rank& rank) {
  Tensors t(rank);
  Plan plan = rank.communicator().prepare_all_reduce(t.input, t.output, ReduceOp::sum);
  rank.tries([&] { how == How::blocking ? plan.run() : end(plan.run_async(), how); });
}

template <How how>
void reduce(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.reduce(t.input, t.output, ReduceOp::sum, 1)
                         : end(comm.reduce_async(t.input, t.output, ReduceOp::sum, 1), how);
  });
}

template <How how>
void reduce_scatter(Rank& rank) {
  Tensors t(rank);
  const auto inputs = std::span(t.inputs).first(elements * static_cast<std::size_t>(rank.communicator().size()));
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.reduce_scatter(inputs, t.output, ReduceOp::sum)
                         : end(comm.reduce_scatter_async(inputs, t.output, ReduceOp::sum), how);
  });
}

template <How how>
void all_gather(Rank& rank) {
  Tensors t(rank);
  const auto outputs = std::span(t.outputs).first(elements * static_cast<std::size_t>(rank.communicator().size()));
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.all_gather(t.input, outputs) : end(comm.all_gather_async(t.input, outputs), how);
  });
}

template <How how>
void gather(Rank& rank) {
  Tensors t(rank);
  const auto outputs = std::span(t.outputs).first(elements * static_cast<std::size_t>(rank.communicator().size()));
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.gather(t.input, outputs, 0) : end(comm.gather_async(t.input, outputs, 0), how);
  });
}

/// The rows of all ranks, and their number.
std::pair<std::span<const std::int64_t>, std::size_t> rows_of(const Communicator& comm) {
  const auto parts = std::span(rows).first(static_cast<std::size_t>(comm.size()));
  std::size_t count = 0;
  for (const std::int64_t part : parts) count += static_cast<std::size_t>(part);
  return {parts, count};
}

template <How how>
void all_gather_v(Rank& rank) {
  Tensors t(rank);
  const auto [parts, count] = rows_of(rank.communicator());
  const auto outputs = std::span(t.outputs).first(count);
  rank.tries([&, parts = parts, &comm = rank.communicator()] {
    how == How::blocking ? comm.all_gather_v(t.own_rows, outputs, parts)
                         : end(comm.all_gather_v_async(t.own_rows, outputs, parts), how);
  });
}

template <How how>
void gather_v(Rank& rank) {
  Tensors t(rank);
  const auto [parts, count] = rows_of(rank.communicator());
  const auto outputs = std::span(t.outputs).first(count);
  rank.tries([&, parts = parts, &comm = rank.communicator()] {
    how == How::blocking ? comm.gather_v(t.own_rows, outputs, parts, 1)
                         : end(comm.gather_v_async(t.own_rows, outputs, parts, 1), how);
  });
}

template <How how>
void scatter(Rank& rank) {
  Tensors t(rank);
  const auto inputs = std::span(t.inputs).first(elements * static_cast<std::size_t>(rank.communicator().size()));
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.scatter(inputs, t.output, 1) : end(comm.scatter_async(inputs, t.output, 1), how);
  });
}

template <How how>
void scatter_v(Rank& rank) {
  Tensors t(rank);
  const auto [parts, count] = rows_of(rank.communicator());
  const auto inputs = std::span(t.inputs).first(count);
  rank.tries([&, parts = parts, &comm = rank.communicator()] {
    how == How::blocking ? comm.scatter_v(inputs, t.own_rows, parts, 0)
                         : end(comm.scatter_v_async(inputs, t.own_rows, parts, 0), how);
  });
}

template <How how>
void all_to_all(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.all_to_all(t.input, t.output) : end(comm.all_to_all_async(t.input, t.output), how);
  });
}

template <How how>
void all_to_all_v(Rank& rank) {
  Tensors t(rank);
  const auto size = static_cast<std::size_t>(rank.communicator().size());
  const std::vector<std::int64_t> parts(size, 2);
  const auto inputs = std::span(t.inputs).first(2 * size);
  const auto outputs = std::span(t.outputs).first(2 * size);
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.all_to_all_v(inputs, outputs, parts, parts)
                         : end(comm.all_to_all_v_async(inputs, outputs, parts, parts), how);
  });
}

template <How how>
void broadcast(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    how == How::blocking ? comm.broadcast(t.input, 0) : end(comm.broadcast_async(t.input, 0), how);
  });
}

template <How how>
void barrier(Rank& rank) {
  rank.tries(
      [&, &comm = rank.communicator()] { how == How::blocking ? comm.barrier() : end(comm.barrier_async(), how); });
}

/// Rank 0 sends to rank 1.
template <How how>
void send(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    if (rank.number() == 0) {
      how == How::blocking ? comm.send(t.input, 1) : end(comm.send_async(t.input, 1), how);
    } else if (rank.number() == 1) {
      comm.recv(t.output, 0);
    }
  });
}

/// Rank 0 receives from rank 1.
template <How how>
void recv(Rank& rank) {
  Tensors t(rank);
  rank.tries([&, &comm = rank.communicator()] {
    if (rank.number() == 0) {
      how == How::blocking ? comm.recv(t.output, 1) : end(comm.recv_async(t.output, 1), how);
    } else if (rank.number() == 1) {
      comm.send(t.input, 0);
    }
  });
}

void abort(Rank& rank) {
  rank.tries_once([&, &comm = rank.communicator()] {
    if (rank.number() == 0) {
      try {
        return comm.abort("no space in the building");
      } catch (const std::bad_alloc&) {  // the other ranks do not know of the call
        comm.abort("no space in the building");
        throw;
      }
    }
    try {
      comm.barrier();
    } catch (const Error& error) {
      if (error.code() != Code::unavailable || error.rank() != 0) throw;
    }
  });
}

}  // namespace

std::vector<Row> communicator_rows() {
  const std::vector<int> one_node{0, 0, 0};
  const std::vector<int> two_nodes{0, 1, 1};
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, void (*body)(Rank&)) {
    rows.push_back({name, one_node, body});
    rows.push_back({name + "/two_nodes", two_nodes, body});
  };
  add("create", create);
  add("split", split);
  add("duplicate", duplicate);
  rows.push_back({"self_communicator", {0}, self});
  rows.push_back({"shared_memory", {0}, shared_memory});
  add("recover", recover);
  add("all_reduce", all_reduce<How::blocking>);
  add("large_all_reduce", large_all_reduce);
  rows.push_back({"prepare_all_reduce", one_node, prepare_all_reduce});
  add("plan", plan<How::blocking>);
  add("reduce", reduce<How::blocking>);
  add("reduce_scatter", reduce_scatter<How::blocking>);
  add("all_gather", all_gather<How::blocking>);
  add("gather", gather<How::blocking>);
  add("all_gather_v", all_gather_v<How::blocking>);
  add("gather_v", gather_v<How::blocking>);
  add("scatter", scatter<How::blocking>);
  add("scatter_v", scatter_v<How::blocking>);
  add("all_to_all", all_to_all<How::blocking>);
  add("all_to_all_v", all_to_all_v<How::blocking>);
  add("broadcast", broadcast<How::blocking>);
  add("barrier", barrier<How::blocking>);
  add("send", send<How::blocking>);
  add("recv", recv<How::blocking>);
  // the asynchronous forms post the same operations, in a place of their own
  rows.push_back({"plan_async", one_node, plan<How::waited>});
  rows.push_back({"all_reduce_async", one_node, all_reduce<How::waited>});
  rows.push_back({"reduce_async", two_nodes, reduce<How::waited>});
  rows.push_back({"reduce_scatter_async", one_node, reduce_scatter<How::waited>});
  rows.push_back({"all_gather_async", two_nodes, all_gather<How::waited>});
  rows.push_back({"gather_async", one_node, gather<How::waited>});
  rows.push_back({"all_gather_v_async", two_nodes, all_gather_v<How::waited>});
  rows.push_back({"gather_v_async", one_node, gather_v<How::waited>});
  rows.push_back({"scatter_async", two_nodes, scatter<How::waited>});
  rows.push_back({"scatter_v_async", one_node, scatter_v<How::waited>});
  rows.push_back({"all_to_all_async", two_nodes, all_to_all<How::waited>});
  rows.push_back({"all_to_all_v_async", one_node, all_to_all_v<How::waited>});
  rows.push_back({"broadcast_async", two_nodes, broadcast<How::waited>});
  rows.push_back({"barrier_async", one_node, barrier<How::waited>});
  add("send_async", send<How::waited>);
  add("recv_async", recv<How::waited>);
  add("all_reduce_when_complete", all_reduce<How::with_callback>);
  rows.push_back({"send_when_complete", one_node, send<How::with_callback>});
  rows.push_back({"abort", one_node, abort});
  return rows;
}

}  // namespace lockstep::shortages
