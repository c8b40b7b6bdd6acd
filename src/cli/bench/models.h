#pragma once

// The model of a workload.

#include "cli/bench/workloads.h"
#include "data/counter_hash.h"
#include "systole/base/error.h"
#include "systole/nn/models.h"
#include "systole/nn/module.h"

namespace systole::cli::bench {

// Calls `use` with a new one; its values are of no account.
template <class Use>
auto with_model(const Workload& work, Use&& use) {
  namespace models = nn::models;
  if (work.model == "mlp") return use(models::Mlp());
  if (work.model == "cnn2") return use(models::KerasCnn());
  if (work.model == "cnn3") return use(models::Cnn3());
  if (work.model == "resnet50") return use(models::ResNet());
  if (work.model == "lstm")
    return use(models::LstmClassifier{
        {.vocabulary = work.vocabulary, .embedding = work.embedding, .hidden = work.hidden}});
  if (work.model == "gpt")
    return use(models::Gpt2{{.layers = work.layers,
                             .width = work.width,
                             .heads = work.heads,
                             .vocabulary = work.vocabulary,
                             .length = work.length}});
  throw Error(ErrorKind::kNotFound, work.name, "no such model", "", work.model);
}

// Gives parameters the values they have in every framework.
inline void set_hashed(const Workload& work, const Parameters& parameters) {
  for (auto [name, variable] : parameters)
    variable.assign(Tensor(data::hashed_parameter(name, variable.type(), weight_deviation(work))));
}

}  // namespace systole::cli::bench
