// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nests of every structure and of every element type, but not of every structure of every element type, which take many
// times as long to compile: each element type is that of a number, and of lists or numbers in a nest with nodes.

#include "model/judge.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests(std::vector<Nest>& nests) {
  add_nests_of_tensors(nests);
  const auto of = [&nests]<class T>(T) {
    NestsOf<T> made(nests);
    made.number();
    return made;
  };
  of(Float16{}).deep();
  of(std::int64_t{}).deep();
  of(float{}).deeper();
  of(std::uint8_t{}).deeper();
  of(double{}).tuple();
  of(std::int16_t{}).tuple();
  of(BFloat16{}).list_of_numbers();
  of(std::uint64_t{}).list_of_numbers();
  of(std::int8_t{}).dictionary();
  of(std::uint32_t{}).dictionary();
  of(std::int32_t{}).components();
  of(std::uint16_t{}).components();
  of(bool{}).mixed();
  NestsOf<float>(nests).mixed();
  NestsOf<bool>(nests).list();
  NestsOf<BFloat16>(nests).list();
  NestsOf<std::int8_t>(nests).list();
  NestsOf<std::uint32_t>(nests).list();
  NestsOf<std::uint64_t>(nests).list();
}

}  // namespace lockstep::test
