// How long attempts of a node take, over several partitions. Home keeps the latencies of all nodes:
// the others tell it of the attempts that they have seen, and hear the pace that follows from all
// of them. Both go with the statistics' rows, every few seconds: so each attempt counts once, also
// over a crash, but for those that home has heard of since it wrote its rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "storage/rows/message.h"

namespace dfsmr {

class Paces {
 public:
  Paces(OpenTurn& turn, Catalog& catalog, Messages& messages, const EngineOptions& options)
      : turn_(turn), catalog_(catalog), messages_(messages), options_(options) {}

  // Whether this is home, and there are others.
  bool TellsOthers() const;
  // The statistics of a machine are written: what there is to tell of its nodes is told by Tell.
  void Add(MachineState& machine);
  void Tell();
  // Forgets what was told of the nodes of a machine.
  void Forget(const MachineState& machine);

  // At home. Returns the machines that it is about.
  std::vector<MachineState*> Take(PartitionId from, const rows::Message::Learned& learned);
  // Elsewhere. The same.
  std::vector<MachineState*> Take(const rows::Message::Paced& paced);

 private:
  struct Told {  // at home, of a node
    uint64_t changes = 0;
    Pace pace;
    std::map<PartitionId, uint64_t> under_way;  // there
  };

  bool Elsewhere() const;  // home keeps the latencies for this partition
  void AddSamples(MachineState& machine, const std::string& node, Latency& latency);
  void AddPace(MachineState& machine, const std::string& node, const Latency& latency);

  OpenTurn& turn_;
  Catalog& catalog_;
  Messages& messages_;
  const EngineOptions& options_;
  std::map<const MachineState*, std::map<std::string, Told>> told_;  // by node
  rows::Message::Learned learned_;  // to be told
  size_t samples_ = 0;              // of these
  rows::Message::Paced paced_;      // to be told
};

}  // namespace dfsmr
