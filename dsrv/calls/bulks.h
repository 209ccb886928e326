// BulkService.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/bulks.h"
#include "dsrv/wire/bulks.h"

namespace dfsmr {

void ServeStartBulk(Call& call, const v1::StartBulkRequest& request, v1::Bulk* reply);

struct BulkId {
  std::string ns;
  std::string id;
};
Result<BulkId> ParseGetBulk(const v1::GetBulkRequest& request, const Call&);
Result<BulkView> RunGetBulk(Engine& engine, const Caller&, BulkId& id);
void ReplyBulk(const BulkView& view, const BulkId&, v1::Bulk* reply);

Result<BulkId> ParseStopBulk(const v1::StopBulkRequest& request, const Call& call);
Result<BulkView> RunStopBulk(Engine& engine, const Caller&, BulkId& id);

struct ListBulksCommand {
  std::string ns;
  std::string filters;
  std::string after;
  size_t limit = 0;
};
Result<ListBulksCommand> ParseListBulks(const v1::ListBulksRequest& request, const Call&);
Result<std::vector<BulkView>> RunListBulks(Engine& engine, const Caller&,
                                           ListBulksCommand& command);
void ReplyListBulks(const std::vector<BulkView>& views, const ListBulksCommand& command,
                    v1::ListBulksResponse* reply);

}  // namespace dfsmr
