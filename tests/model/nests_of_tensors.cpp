// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

namespace lockstep::test {

void add_nests_of_tensors(std::vector<Nest>& nests) {
  const auto add = [&]<class N>(std::type_identity<N>, const char* name) {
    nests.push_back(nest_of<N>({.name = name, .dtype = {}}));
  };
  add(std::type_identity<SingleLeaf<Tensor>>{}, "Tensor");
  add(std::type_identity<ListNest<Tensor>>{}, "list of Tensors");
  add(std::type_identity<DictOfLists<Tensor>>{}, "dictionary of lists of Tensors");
  add(std::type_identity<TupleNest<Tensor, Tensor, Tensor>>{}, "tuple of Tensors");
  add(std::type_identity<DeepNest<Tensor, Tensor, Tensor>>{}, "deep nest of Tensors");
  add(std::type_identity<DeeperNest<Tensor, Tensor, Tensor>>{}, "deeper nest of Tensors");
  add(std::type_identity<RecordNest<Tensor, Tensor>>{}, "records of Tensors");
  add(std::type_identity<ComponentNest<DeeperNest<Tensor, Tensor, Tensor>>>{}, "components that are nests of Tensors");
  add(std::type_identity<ListNestOfComponents<Tensor>>{}, "list of components that are records of Tensors");
  add(std::type_identity<MixedNest<Tensor, Tensor, Tensor>>{}, "Tensors of all kinds");
}

}  // namespace lockstep::test
