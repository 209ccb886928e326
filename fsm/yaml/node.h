// One node of a machine's document. Behind yaml.h.
#pragma once

#include <string>

#include "fsm/machine/machine.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/timeout.h"

namespace dfsmr {

// A node as it is read: what it says itself, or has from 'defaults'. The keys of a timeout are
// judged together, when all of them are known.
struct NodeReading {
  NodeDraft draft;
  bool complete = true;  // all of its transitions could be read
  TimeoutReading timeout;
};

class NodeReader {
 public:
  explicit NodeReader(Reporter* reporter) : reporter_(reporter) {}

  // For the work nodes that are read from then on.
  void ReadDefaults(const Field& field);
  // Everything wrong is reported.
  NodeDraft Read(const Field& field, const std::string& id);
  // False when parts of the graph could not be read: what is missing from it then says nothing.
  bool complete() const { return complete_; }

 private:
  // The kinds that a node is written as; two are an error.
  unsigned KindsOf(const Field& node, const std::string& id);
  void ReadKeys(const Field& node, unsigned kinds, NodeReading* reading);

  Reporter* reporter_;
  NodeReading defaults_;
  bool complete_ = true;
};

}  // namespace dfsmr
