// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives on GPUs that move parts from replica to replica: all_gather, gather, scatter and all_to_all, with
// parts of equal or of different lengths.
//
// Each GPU sends to each other GPU the parts for that GPU. Short parts are packed into one bucket; each long part
// travels directly from the input to the output. All sends and receives are in one NCCL group. Parts that stay on a GPU
// are copied. With P GPUs, a GPU sends (P-1)/P of the bytes of its inputs in an all_to_all, and P-1 times these bytes
// in an all_gather. An all_gather of parts of equal length on GPUs with equal numbers of replicas is in all_gather.cpp.

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/buckets.hpp"
#include "collectives/gpu/gpu_operation.hpp"
#include "collectives/gpu/operations.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

/// A part that goes from one GPU to another or stays on its GPU, as seen by one of the two GPUs.
struct Move {
  std::size_t bytes = 0;
  const void* source = nullptr;
  std::vector<void*> targets;  // the part in each output; may be empty
};

/// The parts that go from one GPU to another. Both GPUs list them in the same order.
using Moves = std::vector<Move>;

bool is_short(const Move& move) { return move.bytes < short_bytes; }

/// Number of bytes that a short part occupies in its bucket.
std::size_t padded_size(const Move& move) { return (move.bytes + 15) / 16 * 16; }
std::size_t bucket_size(const Moves& moves) {
  std::size_t bytes = 0;
  for (const Move& move : moves) bytes += is_short(move) ? padded_size(move) : 0;
  return bytes;
}

class PartMoves final : public GpuOperation {
 public:
  PartMoves(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
      : GpuOperation(descriptor, std::move(group), std::move(items)) {}

 private:
  /// The moves and buckets of one GPU, by index of the other GPU in Leaders.
  struct Traffic {
    std::vector<Moves> out;
    std::vector<Moves> in;
    std::vector<void*> out_buckets;
    std::vector<void*> in_buckets;
  };

  bool do_step(int step) override {
    if (step == 0) {
      const auto leaders = static_cast<std::size_t>(group().leaders().size());
      for (std::size_t stream = 0; stream < streams(); ++stream)
        traffic_.push_back({std::vector<Moves>(leaders), std::vector<Moves>(leaders), {}, {}});
      for (const HostItem& item : items()) list_moves(item);
      for (std::size_t stream = 0; stream < streams(); ++stream) load(stream);
      if (leaders > 1) exchange();
      return false;
    }
    for (std::size_t stream = 0; stream < streams(); ++stream) deliver(stream);
    return true;
  }

  [[nodiscard]] bool has_stream(int leader) const { return group().leaders()[leader].rank == group().rank(); }
  [[nodiscard]] std::size_t stream_of_leader(int leader) const {
    return static_cast<std::size_t>(leader - group().leaders().first(group().rank()));
  }

  void add(int from, int to, const Move& move) {
    if (move.bytes == 0) return;
    if (has_stream(from)) traffic_[stream_of_leader(from)].out[static_cast<std::size_t>(to)].push_back(move);
    if (has_stream(to) && from != to) traffic_[stream_of_leader(to)].in[static_cast<std::size_t>(from)].push_back(move);
  }

  void list_moves(const HostItem& item) {
    if (descriptor().traits().scatters()) {
      list_scatter(item);
    } else if (descriptor().traits().is_all_to_all()) {
      list_all_to_all(item);
    } else {
      list_gather(item);
    }
  }

  void list_gather(const HostItem& item) {
    const Leaders& leaders = group().leaders();
    const bool is_to_root = descriptor().traits().outputs == Place::root;
    for (int replica = 0; replica < group().layout().replicas(); ++replica) {
      const std::int64_t begin = item.part_begin(replica);
      const std::size_t bytes = static_cast<std::size_t>(item.part_begin(replica + 1) - begin) * size_of(item.dtype);
      const void* const source = is_here(replica) ? input_of(item, replica) : nullptr;
      for (int leader = 0; leader < leaders.size(); ++leader) {
        if (is_to_root && !leaders.has(leader, descriptor().root)) continue;
        Move move{bytes, source, {}};
        if (has_stream(leader)) {
          for (void* const output : outputs_on(stream_of_leader(leader), item))
            move.targets.push_back(at(output, begin, item.dtype));
        }
        add(leaders.of(replica), leader, move);
      }
    }
  }

  void list_scatter(const HostItem& item) {
    const Leaders& leaders = group().leaders();
    const PartBegins& begins = item.input_parts.front();
    const int root = leaders.of_rank(descriptor().root);
    const void* const input = has_stream(root) ? input_of_root(item, stream_of_leader(root)) : nullptr;
    for (int replica = 0; replica < group().layout().replicas(); ++replica) {
      const std::int64_t begin = begins[static_cast<std::size_t>(replica)] * item.row_elements;
      const std::int64_t end = begins[static_cast<std::size_t>(replica) + 1] * item.row_elements;
      Move move{static_cast<std::size_t>(end - begin) * size_of(item.dtype), nullptr, {}};
      if (move.bytes == 0) continue;
      if (input != nullptr) move.source = at(input, begin, item.dtype);
      if (is_here(replica)) move.targets.push_back(output_of(item, replica));
      add(root, leaders.of(replica), move);
    }
  }

  /// The root's input in memory of the GPU of `stream`. If the input is on another GPU, copies it first.
  const void* input_of_root(const HostItem& item, std::size_t stream) {
    const GpuPlace& place = item.input_places.front();
    const std::size_t from = group().stream_on(place.device.index);
    if (from == stream || place.bytes == 0) return item.inputs.front();
    void* const here = scratch(stream, place.bytes);
    order(stream, from);
    group().streams()[from]->copy_to(*group().streams()[stream], here, item.inputs.front(), place.bytes);
    order(from, stream);
    return here;
  }

  void list_all_to_all(const HostItem& item) {
    const Leaders& leaders = group().leaders();
    const std::vector<const void*> inputs = inputs_apart(item);
    for (int source = 0; source < group().layout().replicas(); ++source) {
      for (int target = 0; target < group().layout().replicas(); ++target) {
        if (!is_here(source) && !is_here(target)) continue;
        Move move;
        if (is_here(source)) {
          const Range range = part(item, item.input_parts, source, target);
          move.bytes = static_cast<std::size_t>(range.count) * size_of(item.dtype);
          move.source = at(inputs[place_of(source)], range.begin, item.dtype);
        }
        if (is_here(target)) {
          const Range range = part(item, item.output_parts, target, source);
          move.bytes = static_cast<std::size_t>(range.count) * size_of(item.dtype);
          move.targets.push_back(at(output_of(item, target), range.begin, item.dtype));
        }
        add(leaders.of(source), leaders.of(target), move);
      }
    }
  }

  /// A range of elements of a tensor.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };

  /// In an all_to_all: the part for `other` in the input of `replica`, or the part from `other` in the output of
  /// `replica`. `parts` is `item.input_parts` or `item.output_parts`. This rank must lead the GPU of `replica`.
  [[nodiscard]] Range part(const HostItem& item, const std::vector<PartBegins>& parts, int replica, int other) const {
    if (!descriptor().traits().has_rows()) return {other * item.row_elements, item.row_elements};
    const auto begin = parts[place_of(replica)].begin() + other;
    return {begin[0] * item.row_elements, (begin[1] - begin[0]) * item.row_elements};
  }

  /// The inputs of an all_to_all. An input that is also an output is replaced by a copy, before it is overwritten.
  std::vector<const void*> inputs_apart(const HostItem& item) {
    std::vector<const void*> inputs = item.inputs;
    std::vector<std::vector<cuda::CopyRegion>> pieces(streams());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (std::find(item.outputs.begin(), item.outputs.end(), inputs[i]) == item.outputs.end()) continue;
      const GpuPlace& place = item.input_places[i];
      if (place.bytes == 0) continue;
      const std::size_t stream = group().stream_on(place.device.index);
      if (stream >= streams()) continue;  // another rank is the proxy on this GPU and has the input
      void* const apart = scratch(stream, place.bytes);
      pieces[stream].push_back({inputs[i], apart, place.bytes});
      inputs[i] = apart;
    }
    for (std::size_t stream = 0; stream < streams(); ++stream) copy(stream, pieces[stream]);
    return inputs;
  }

  /// Allocates memory for the parts that the GPU receives, copies the parts that stay, and packs the short parts to
  /// send.
  void load(std::size_t stream) {
    Traffic& traffic = traffic_[stream];
    std::vector<cuda::CopyRegion> pieces;
    for (std::size_t peer = 0; peer < traffic.out.size(); ++peer) {
      traffic.in_buckets.push_back(new_bucket(stream, traffic.in[peer]));
      for (Move& move : traffic.in[peer]) {
        if (!is_short(move) && move.targets.empty()) move.targets.push_back(scratch(stream, move.bytes));
      }
      const bool stays = static_cast<int>(peer) == group().leader_of_stream(stream);
      traffic.out_buckets.push_back(stays ? nullptr : new_bucket(stream, traffic.out[peer]));
      auto* next = static_cast<std::byte*>(traffic.out_buckets.back());
      for (const Move& move : traffic.out[peer]) {
        if (stays) {
          add_copies(move.source, move, pieces);
        } else if (is_short(move)) {
          pieces.push_back({move.source, next, move.bytes});
          next += padded_size(move);
        }
      }
    }
    copy(stream, pieces);
  }

  void* new_bucket(std::size_t stream, const Moves& moves) {
    const std::size_t bytes = bucket_size(moves);
    return bytes != 0 ? scratch(stream, bytes) : nullptr;
  }

  static void add_copies(const void* source, const Move& move, std::vector<cuda::CopyRegion>& pieces) {
    for (void* const target : move.targets) {
      if (target != source) pieces.push_back({source, target, move.bytes});
    }
  }

  void exchange() {
    NcclGroup calls(*group().comms());
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      const Traffic& traffic = traffic_[stream];
      for (int peer = 0; peer < group().leaders().size(); ++peer) {
        const auto index = static_cast<std::size_t>(peer);
        if (peer == group().leader_of_stream(stream)) continue;
        send(calls, stream, peer, traffic.out_buckets[index], bucket_size(traffic.out[index]));
        for (const Move& move : traffic.out[index]) {
          if (!is_short(move)) send(calls, stream, peer, move.source, move.bytes);
        }
        receive(calls, stream, peer, traffic.in_buckets[index], bucket_size(traffic.in[index]));
        for (const Move& move : traffic.in[index]) {
          if (!is_short(move)) receive(calls, stream, peer, move.targets.front(), move.bytes);
        }
      }
    }
    calls.end();
  }

  void send(const NcclGroup& calls, std::size_t stream, int peer, const void* source, std::size_t bytes) const {
    const NcclComms& comms = *group().comms();
    if (bytes == 0) return;
    calls.add(comms.api().send(source, bytes, DType::u8, peer, comms[stream], cuda_stream(stream)), "ncclSend");
  }
  void receive(const NcclGroup& calls, std::size_t stream, int peer, void* target, std::size_t bytes) const {
    const NcclComms& comms = *group().comms();
    if (bytes == 0) return;
    calls.add(comms.api().recv(target, bytes, DType::u8, peer, comms[stream], cuda_stream(stream)), "ncclRecv");
  }

  void deliver(std::size_t stream) {
    std::vector<cuda::CopyRegion> pieces;
    for (std::size_t peer = 0; peer < traffic_[stream].in.size(); ++peer) {
      const auto* next = static_cast<const std::byte*>(traffic_[stream].in_buckets[peer]);
      for (const Move& move : traffic_[stream].in[peer]) {
        if (is_short(move)) {
          add_copies(next, move, pieces);
          next += padded_size(move);
        } else {
          add_copies(move.targets.front(), move, pieces);
        }
      }
    }
    copy(stream, pieces);
  }

  std::vector<Traffic> traffic_;  // by stream
};

}  // namespace

std::shared_ptr<Operation> make_part_moves(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                           std::vector<HostItem> items) {
  return std::make_shared<PartMoves>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
