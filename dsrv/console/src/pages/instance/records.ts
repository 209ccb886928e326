// The history of an instance, read once and then kept up by what the stream tells.
import { call } from "../../api/call";
import type { ChangeJson, GetHistoryResponseJson } from "../../api/types";
import { useLoad } from "../../state/load";
import { recordsAsked } from "../asks";
import type { Followed } from "./index";

const MOST = 5000;

export interface Records {
  changes: ChangeJson[];
  whole: boolean;
}

// Oldest first; of a longer history the newest part.
export function useRecords(followed: Followed) {
  const id = followed.instance.id!;
  const loaded = useLoad(
    async (signal): Promise<Records> => {
      const changes: ChangeJson[] = [];
      let pageToken: string | undefined = "";
      while (pageToken !== undefined && changes.length < MOST) {
        const page: GetHistoryResponseJson = await call(
          "RunnerService",
          "GetHistory",
          recordsAsked(id, pageToken),
          signal,
        );
        changes.push(...(page.changes ?? []));
        pageToken = page.nextPageToken || undefined;
      }
      return { changes: changes.reverse(), whole: pageToken === undefined };
    },
    [id, followed.leftOut > 0 ? followed.instance.changeTime : ""],
  );
  const last = Number(loaded.data?.changes.at(-1)?.seq ?? 0);
  const news = followed.news.filter((change) => Number(change.seq) > last);
  return { ...loaded, data: loaded.data && { ...loaded.data, changes: [...loaded.data.changes, ...news] } };
}
