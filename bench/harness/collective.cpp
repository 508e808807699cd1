// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/harness/collective.hpp"

#include <array>

namespace perf {
namespace {

double one(double /*ranks*/) { return 1; }
double others(double ranks) { return (ranks - 1) / ranks; }
double others_twice(double ranks) { return 2 * (ranks - 1) / ranks; }
double there_and_back(double /*ranks*/) { return 2; }

/// In the order of the enumerators.
constexpr std::array<Traits, collective_count> traits_table{{
    {"all_reduce", Kind::collective, true, false, true, false, Length::whole, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::reduction, others_twice},
    {"reduce", Kind::collective, true, true, true, false, Length::whole, Holder::every_rank, Length::whole,
     Holder::root, Expected::reduction, one},
    {"reduce_scatter", Kind::collective, true, false, false, false, Length::whole, Holder::every_rank, Length::part,
     Holder::every_rank, Expected::own_part_of_reduction, others},
    {"all_gather", Kind::collective, false, false, false, false, Length::part, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::all_inputs, others},
    {"all_gather_v", Kind::collective, false, false, false, true, Length::part, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::all_inputs, others},
    {"gather", Kind::collective, false, true, false, false, Length::part, Holder::every_rank, Length::whole,
     Holder::root, Expected::all_inputs, others},
    {"gather_v", Kind::collective, false, true, false, true, Length::part, Holder::every_rank, Length::whole,
     Holder::root, Expected::all_inputs, others},
    {"scatter", Kind::collective, false, true, false, false, Length::whole, Holder::root, Length::part,
     Holder::every_rank, Expected::own_part_of_root_input, others},
    {"scatter_v", Kind::collective, false, true, false, true, Length::whole, Holder::root, Length::part,
     Holder::every_rank, Expected::own_part_of_root_input, others},
    {"all_to_all", Kind::collective, false, false, false, false, Length::whole, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::own_parts_of_inputs, others},
    {"all_to_all_v", Kind::collective, false, false, false, true, Length::whole, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::own_parts_of_inputs, others},
    {"broadcast", Kind::collective, false, true, true, false, Length::whole, Holder::root, Length::whole,
     Holder::every_rank, Expected::root_input, one},
    {"barrier", Kind::collective, false, false, false, false, Length::none, Holder::every_rank, Length::none,
     Holder::every_rank, Expected::nothing, one},
    {"send_recv", Kind::message, false, false, false, false, Length::whole, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::partner_input, there_and_back},
    {"halo", Kind::message, false, false, false, false, Length::whole, Holder::every_rank, Length::whole,
     Holder::every_rank, Expected::partner_input, one},
    {"duplicate", Kind::creation, false, false, false, false, Length::none, Holder::every_rank, Length::none,
     Holder::every_rank, Expected::nothing, one},
    {"split", Kind::creation, false, false, false, false, Length::none, Holder::every_rank, Length::none,
     Holder::every_rank, Expected::nothing, one},
    {"first_call", Kind::creation, false, false, false, false, Length::none, Holder::every_rank, Length::none,
     Holder::every_rank, Expected::nothing, one},
}};

}  // namespace

std::string_view to_string(Form form) noexcept {
  switch (form) {
    case Form::blocking: break;
    case Form::async: return "async";
    case Form::in_flight: return "in_flight";
    case Form::loop: return "loop";
    case Form::async_loop: return "async_loop";
  }
  return "blocking";
}

const Traits& traits(Collective collective) noexcept { return traits_table[static_cast<std::size_t>(collective)]; }

bool has_form(Collective collective, Form form) noexcept {
  if (traits(collective).kind == Kind::creation) return form == Form::blocking;
  return collective != Collective::halo || (form != Form::blocking && form != Form::loop);
}

}  // namespace perf
