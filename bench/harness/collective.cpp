// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/harness/collective.hpp"

#include <array>

namespace perf {
namespace {

double one(double /*ranks*/) { return 1; }
double others(double ranks) { return (ranks - 1) / ranks; }
double others_twice(double ranks) { return 2 * (ranks - 1) / ranks; }

/// In the order of the enumerators.
constexpr std::array<Traits, collective_count> traits_table{{
    {"all_reduce", true, false, true, false, Length::whole, Holder::every_rank, Length::whole, Holder::every_rank,
     Expected::reduction, others_twice},
    {"reduce", true, true, true, false, Length::whole, Holder::every_rank, Length::whole, Holder::root,
     Expected::reduction, one},
    {"reduce_scatter", true, false, false, false, Length::whole, Holder::every_rank, Length::part, Holder::every_rank,
     Expected::own_part_of_reduction, others},
    {"all_gather", false, false, false, false, Length::part, Holder::every_rank, Length::whole, Holder::every_rank,
     Expected::all_inputs, others},
    {"all_gather_v", false, false, false, true, Length::part, Holder::every_rank, Length::whole, Holder::every_rank,
     Expected::all_inputs, others},
    {"gather", false, true, false, false, Length::part, Holder::every_rank, Length::whole, Holder::root,
     Expected::all_inputs, others},
    {"gather_v", false, true, false, true, Length::part, Holder::every_rank, Length::whole, Holder::root,
     Expected::all_inputs, others},
    {"scatter", false, true, false, false, Length::whole, Holder::root, Length::part, Holder::every_rank,
     Expected::own_part_of_root_input, others},
    {"scatter_v", false, true, false, true, Length::whole, Holder::root, Length::part, Holder::every_rank,
     Expected::own_part_of_root_input, others},
    {"all_to_all", false, false, false, false, Length::whole, Holder::every_rank, Length::whole, Holder::every_rank,
     Expected::own_parts_of_inputs, others},
    {"all_to_all_v", false, false, false, true, Length::whole, Holder::every_rank, Length::whole, Holder::every_rank,
     Expected::own_parts_of_inputs, others},
    {"broadcast", false, true, true, false, Length::whole, Holder::root, Length::whole, Holder::every_rank,
     Expected::root_input, one},
    {"barrier", false, false, false, false, Length::none, Holder::every_rank, Length::none, Holder::every_rank,
     Expected::nothing, one},
}};

}  // namespace

const Traits& traits(Collective collective) noexcept { return traits_table[static_cast<std::size_t>(collective)]; }

}  // namespace perf
