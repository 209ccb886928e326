#include "dcli/call/backup.h"

#include "dcli/call/calling.h"

namespace dfsmr::cli {

BackupCalls Client::backups() { return BackupCalls(*this); }

Result<Ok> BackupCalls::Backup(const std::function<bool(const v1::BackupResponse&)>& visit,
                               Canceller* cancel) {
  const auto connection = client_.Reached();
  grpc::ClientContext context;
  SendToken(client_.credentials_, &context);
  const CallUnderWay under_way(cancel, &context);
  const auto stub = v1::BackupService::NewStub(connection->channel);
  auto reader = stub->Backup(&context, v1::BackupRequest());
  v1::BackupResponse response;
  bool stopped = false;
  while (!stopped && reader->Read(&response)) stopped = !visit(response);
  if (stopped) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (stopped || status.ok()) return Ok{};
  const Error error = ErrorOf(status, context);
  client_.Lost(connection, error);
  return error;
}

}  // namespace dfsmr::cli
