// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the calls of the library on nests of one type. The results are texts, one for each local replica, or one text
// if the call has one result.

#pragma once

#include "model/nests.hpp"
#include "support/function_ref.hpp"

#include <lockstep/lockstep.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

using Texts = std::vector<std::string>;

/// A nest as the model takes it.
struct Recorded {
  std::string skeleton;
  ReplicaLeaves leaves;
};

/// A type of nests.
struct Nest {
  NestFacts facts;
  Recorded (*record)(const Call& call, const Layout& layout);
  Texts (*perform)(Strategy& strategy, const Call& call, const Layout& layout, int rank);
};

/// Whether a call is made in the step function, on the nests of the replicas.
[[nodiscard]] inline bool is_in_step(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::all_gather || kind == Kind::broadcast || kind == Kind::merge_call ||
         kind == Kind::run;
}

[[nodiscard]] inline ReduceOpArgument op_of(const Call& call) {
  if (call.by_name && call.op == ReduceOp::sum) return call.values % 2 == 0 ? "SUM" : "sum";
  if (call.by_name && call.op == ReduceOp::mean) return call.values % 2 == 0 ? "MEAN" : "Mean";
  return call.op;
}

/// The text that `body` returns in the place of the call.
[[nodiscard]] std::string in_place(Strategy& strategy, Place place, FunctionRef<std::string()> body);

/// The texts that `body(replica)` returns in a step.
[[nodiscard]] Texts in_step(Strategy& strategy, FunctionRef<std::string(ReplicaContext&)> body);

template <class N>
class Performer {
 public:
  static Recorded record(const Call& call, const Layout& layout) {
    Recorded result;
    if (is_in_step(call.kind)) {
      if constexpr (in_replicas) {
        Source source(call, {0, layout.replicas()}, true, layout);
        static_cast<void>(build<OfReplica>(source));
        return {source.skeleton(), source.leaves()};
      }
    }
    Source source(call, {0, layout.replicas()}, false, layout);
    if (call.kind == Kind::reduce_to || call.kind == Kind::batch_reduce_to) {
      for (int n = call.kind == Kind::reduce_to ? 1 : call.pairs; n > 0; --n) {
        static_cast<void>(build<Distributed>(source));
        source.write(";");
      }
    } else {
      static_cast<void>(build<Distributed>(source));
    }
    return {source.skeleton(), source.leaves()};
  }

  static Texts perform(Strategy& strategy, const Call& call, const Layout& layout, int rank) {
    const Source::Range mine{layout.first(rank), layout.counts[static_cast<std::size_t>(rank)]};
    Source source(call, mine, false, layout);
    switch (call.kind) {
      case Kind::reduce: return {reduce(strategy, call, build<Distributed>(source))};
      case Kind::reduce_along: return {reduce_along(strategy, call, build<Distributed>(source))};
      case Kind::gather: return {gather(strategy, call, build<Distributed>(source))};
      case Kind::local_results: return local_results(strategy, call, build<Distributed>(source));
      case Kind::update: return update(strategy, build<Distributed>(source));
      case Kind::reduce_to:
      case Kind::batch_reduce_to:
        if constexpr (is_single) return {reduce_to(strategy, call, source)};
        break;
      case Kind::variable:
      case Kind::pairs: break;
      default:
        if constexpr (in_replicas) return in_replica_context(strategy, call, layout);
    }
    return {};
  }

 private:
  using Distributed = typename N::template in<PerReplica>;
  using OfReplica = typename N::template in<Own>;
  static constexpr bool in_replicas = N::in_replicas;
  static constexpr bool is_single = is_per_replica<Distributed>;

  template <class Result>
  static void check_type() {
    if constexpr (N::keeps_types) static_assert(std::same_as<Result, OfReplica>);
  }

  static std::string reduce(Strategy& strategy, const Call& call, const Distributed& value) {
    return in_place(strategy, call.place, [&] {
      if constexpr (N::only_numbers) {
        if (call.as_double) return text_of(strategy.reduce<double>(op_of(call), value));
      }
      const auto result = strategy.reduce(op_of(call), value);
      check_type<std::remove_const_t<decltype(result)>>();
      return text_of(result);
    });
  }
  static std::string reduce_along(Strategy& strategy, const Call& call, const Distributed& value) {
    return in_place(strategy, call.place,
                    [&] { return text_of(strategy.reduce(op_of(call), value, Axes(call.axes))); });
  }
  static std::string gather(Strategy& strategy, const Call& call, const Distributed& value) {
    return in_place(strategy, call.place, [&] { return text_of(strategy.gather(value, call.axis)); });
  }
  static Texts local_results(Strategy& strategy, const Call& call, const Distributed& value) {
    Texts texts;
    static_cast<void>(in_place(strategy, call.place, [&] {
      texts.clear();
      const auto parts = strategy.experimental_local_results(value);
      using Part = typename std::remove_const_t<decltype(parts)>::value_type;
      for (const Part& part : parts) texts.push_back(text_of(part));
      return std::string();
    }));
    return texts;
  }
  static Texts update(Strategy& strategy, const Distributed& value) {
    const auto variable = strategy.variable<float>(0.0F);
    return strategy.extended().update(
        ungrouped, variable, [](const auto&, const auto& part) { return text_of(part); }, value);
  }

  /// The text of a copy, and the devices of all copies that are Tensors.
  template <class T>
  static std::string text_of_copies(const Mirrored<T>& copies) {
    const std::string first = text_of(copies.component(0));
    std::string devices;
    for (int i = 0; i < copies.size(); ++i) {
      if (text_of(copies.component(i)) != first) return "different copies";
      if constexpr (std::same_as<T, Tensor>) devices += "@" + lockstep::to_string(copies.component(i).device());
    }
    return first + devices + ";";
  }
  static std::string reduce_to(Strategy& strategy, const Call& call, Source& source) {
    const auto variable = strategy.variable<float>(0.0F);
    const auto target_for = [&](const Distributed& value) {
      switch (call.target) {
        case Target::device: return Destinations(Device{});
        case Target::other_device: return Destinations(Device{DeviceKind::cpu, 1});
        case Target::device_name: return Destinations("cpu:0");
        case Target::variable: return Destinations(variable);
        case Target::value: break;
      }
      return Destinations(value);
    };
    if (call.kind == Kind::reduce_to) {
      const auto value = build<Distributed>(source);
      return in_place(strategy, call.place, [&] {
        const auto copies = strategy.extended().reduce_to(op_of(call), value, target_for(value));
        return text_of_copies(copies) + std::to_string(copies.size());
      });
    }
    std::vector<std::pair<Distributed, Destinations>> pairs;
    for (int n = call.pairs; n > 0; --n) {
      auto value = build<Distributed>(source);
      const Destinations target = target_for(value);
      pairs.emplace_back(std::move(value), target);
    }
    return in_place(strategy, call.place, [&] {
      std::string text;
      int count = 0;
      for (const auto& copies : strategy.extended().batch_reduce_to(op_of(call), pairs)) {
        text += text_of_copies(copies);
        count = copies.size();
      }
      return text + std::to_string(count);
    });
  }

  static OfReplica own(const Call& call, const ReplicaContext& replica, const Layout& layout) {
    Source source(call, {replica.replica_id_in_sync_group(), 1}, true, layout);
    return build<OfReplica>(source);
  }
  /// A text if `result` is a Tensor that is not on the device of the replica.
  template <class Result>
  static std::string wrong_device(const Result& result, const ReplicaContext& replica) {
    if constexpr (std::same_as<Result, Tensor>) {
      if (result.device() != replica.devices().front()) return " on " + lockstep::to_string(result.device());
    }
    return {};
  }
  static Texts in_replica_context(Strategy& strategy, const Call& call, const Layout& layout) {
    switch (call.kind) {
      case Kind::all_reduce:
        return in_step(strategy, [&](ReplicaContext& replica) {
          const auto value = own(call, replica, layout);
          const auto result = replica.all_reduce(op_of(call), value);
          static_assert(std::same_as<decltype(result), decltype(value)>);
          return text_of(result) + wrong_device(result, replica);
        });
      case Kind::all_gather:
        return in_step(strategy, [&](ReplicaContext& replica) {
          const auto result = replica.all_gather(own(call, replica, layout), call.axis);
          return text_of(result) + wrong_device(result, replica);
        });
      case Kind::broadcast:
        return in_step(strategy, [&](ReplicaContext& replica) {
          return text_of(replica.broadcast(own(call, replica, layout), call.root));
        });
      case Kind::merge_call:
        return in_step(strategy, [&](ReplicaContext& replica) {
          return text_of(replica.merge_call(
              [&](Strategy& current, const auto& merged) { return current.reduce(op_of(call), merged); },
              own(call, replica, layout)));
        });
      default: break;
    }
    const auto merged = strategy.run([&](ReplicaContext& replica) { return own(call, replica, layout); });
    Texts texts = in_step(strategy, [&](ReplicaContext& replica) { return text_of(own(call, replica, layout)); });
    const auto parts = strategy.run([](const auto& part) { return text_of(part); }, merged);
    for (int i = 0; i < parts.size(); ++i) {
      if (parts.component(i) != texts[static_cast<std::size_t>(i)])
        texts[static_cast<std::size_t>(i)] = parts.component(i);
    }
    const auto results = strategy.experimental_local_results(merged);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (text_of(results[i]) != texts[i]) texts[i] = text_of(results[i]);
    }
    return texts;
  }
};

/// `facts` with the functions of nests of type N.
template <class N>
Nest nest_of(NestFacts facts) {
  facts.in_replicas = N::in_replicas;
  facts.is_leaf = is_per_replica<typename N::template in<PerReplica>>;
  return {std::move(facts), &Performer<N>::record, &Performer<N>::perform};
}

/// Adds nests whose numbers and lists have elements of type T.
template <Element T>
class NestsOf {
 public:
  explicit NestsOf(std::vector<Nest>& nests) : nests_(nests) {}

  void number() { add<SingleLeaf<T>>("number", true, false); }
  void list() { add<SingleLeaf<List>>("list", false, true); }
  void deep() { add<Deep>("deep nest", true, true); }
  void deeper() { add<DeeperNest<List, Tensor, Pair>>("deeper nest without numbers", false, true); }
  void tuple() { add<TupleNest<Pair, T, List>>("tuple", true, true); }
  void list_of_numbers()
    requires(!std::same_as<T, bool>)
  {
    add<ListNest<T>>("list of numbers", true, false);
  }
  void dictionary()
    requires(!std::same_as<T, bool>)
  {
    add<DictOfLists<T>>("dictionary of lists of numbers", true, false);
  }
  void components() { add<ComponentNest<Deep>>("components that are nests", true, true); }
  void mixed() { add<MixedNest<T, List, Tensor>>("leaves of all kinds", true, true); }

  void all() {
    number();
    list();
    deep();
    deeper();
    tuple();
    if constexpr (!std::same_as<T, bool>) {
      list_of_numbers();
      dictionary();
    }
    components();
    mixed();
  }

 private:
  using Pair = std::array<T, 2>;
  using List = std::conditional_t<std::same_as<T, bool>, Pair, std::vector<T>>;
  using Deep = DeepNest<T, List, Tensor>;

  template <class N>
  void add(const char* text, bool has_numbers, bool has_lists) {
    const std::string name(lockstep::to_string(dtype_of<T>));
    nests_.push_back(nest_of<N>({name + " " + text, dtype_of<T>, has_numbers, N::only_numbers, has_lists}));
  }

  std::vector<Nest>& nests_;
};

void add_nests_of_tensors(std::vector<Nest>& nests);
void add_nests_of_floats(std::vector<Nest>& nests);
void add_nests_of_signed(std::vector<Nest>& nests);
void add_nests_of_unsigned(std::vector<Nest>& nests);

}  // namespace lockstep::test
