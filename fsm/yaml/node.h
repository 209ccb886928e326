// One node of a machine's document.
#pragma once

#include <string>

#include "fsm/machine/machine.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/timeout.h"

namespace dfsmr {

// A node as it is read: its own keys, or those from 'defaults'. The keys of a timeout are checked
// together, once all of them are known.
struct NodeReading {
  NodeDraft draft;
  bool complete = true;  // all of its transitions could be read
  TimeoutReading timeout;
};

class NodeReader {
 public:
  explicit NodeReader(Reporter* reporter) : reporter_(reporter) {}

  // Applies to the work nodes that are read afterwards.
  void ReadDefaults(const Field& field);
  // Reports everything that is wrong.
  NodeDraft Read(const Field& field, const std::string& id);
  // False when parts of the graph could not be read. Then a missing part is not an error.
  bool complete() const { return complete_; }

 private:
  // The kinds that the keys of a node belong to; two are an error.
  unsigned KindsOf(const Field& node, const std::string& id);
  void ReadKeys(const Field& node, unsigned kinds, NodeReading* reading);

  Reporter* reporter_;
  NodeReading defaults_;
  bool complete_ = true;
};

}  // namespace dfsmr
