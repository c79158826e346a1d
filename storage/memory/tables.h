#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

#include "storage/memory/table.h"
#include "storage/store.h"

namespace tessera::storage {

/// All data of a memory store. Rows are numbered in order of insertion, as in SQLite.
struct Tables {
  struct JobRow {
    v1::Job job;
    std::string request_hash;
    std::string action_id;
    int64_t row = 0;
  };
  struct TaskRow {
    v1::Task task;
    int64_t row = 0;
  };
  struct ActionRow {
    v1::Action action;
    int64_t row = 0;
  };
  struct ArtifactKey {
    std::string artifact_id;
    int64_t create_time_us = 0;
  };
  using Text = std::string;
  struct ReadyKey {
    int kind = 0;
    int64_t minus_priority = 0;
    int64_t turn = 0;
    int64_t ready_us = 0;
    int64_t row = 0;
    Text id;
    auto operator<=>(const ReadyKey&) const = default;
  };

  UndoLog undo;
  int64_t next_row = 1;

  Table<Text, JobRow> jobs{undo};
  Table<std::pair<Text, Text>, Text> job_by_request{undo};          ///< project, request id
  Index<std::tuple<Text, int64_t, Text>> living_jobs{undo};         ///< action, row, id
  Index<std::tuple<int64_t, int64_t, Text>> queue_deadlines{undo};  ///< deadline, row, id
  Index<std::tuple<int64_t, int64_t, Text>> deadlines{undo};        ///< deadline of the whole job, row, id
  Table<std::pair<Text, int64_t>, v1::JobEvent> events{undo};       ///< job, sequence

  Table<Text, v1::ArtifactRollout> series{undo};                        ///< by job
  Table<std::pair<Text, int64_t>, v1::ArtifactVersion> versions{undo};  ///< job, number
  Table<std::pair<Text, int64_t>, v1::SearchEntry> search_log{undo};    ///< search, number

  Table<Text, ActionRow> actions{undo};
  Index<std::tuple<Text, int64_t, int64_t, Text>> living_actions{undo};  ///< key, create time, row, id
  Table<std::pair<Text, Text>, v1::KeyComponent> components{undo};       ///< action, name
  Index<std::tuple<Text, Text, int64_t, Text>> by_component{undo};       ///< name, hash, minus create time, action

  Table<Text, TaskRow> tasks{undo};
  Index<std::tuple<Text, int64_t, int64_t, Text>> living_tasks{undo};  ///< key, ready time, row, id
  Index<ReadyKey> ready{undo};
  Table<std::tuple<int, int64_t, int64_t, Text>, ReadyKey> ready_by_time{undo};  ///< kind, ready time, row, id
  Table<std::pair<int, Text>, int64_t> ticket_of_client{undo};  ///< priority, client -> last ticket taken
  Table<int, int64_t> ticket_served{undo};                      ///< by priority: last ticket served
  Index<Text> leased{undo};
  Table<std::pair<Text, Text>, int64_t> links{undo};             ///< action, task -> position
  Index<std::tuple<Text, int64_t, Text>> tasks_of_action{undo};  ///< action, position, task
  Index<std::tuple<Text, int64_t, Text>> actions_of_task{undo};  ///< task, position, action

  Table<Text, v1::Digest> objects{undo};
  Table<Text, v1::Reproduction> reproductions{undo};
  Table<Text, v1::Artifact> artifacts{undo};
  Table<Text, ArtifactKey> artifact_keys{undo};
  Table<Text, v1::TuningRecord> records{undo};
  Table<Text, StoredTarget> targets{undo};
  Table<Text, v1::Worker> workers{undo};
  Table<Text, int64_t> blobs{undo};                        ///< sizes by SHA-256
  Index<Text> lost_blobs{undo};                            ///< those that are marked lost
  Index<Text> removed_blobs{undo};                         ///< those whose bytes are being removed
  Table<Text, Text> settings{undo};                        ///< by name
  Table<Text, std::pair<Text, int64_t>> blob_bytes{undo};  ///< by SHA-256: bytes and time of storage
  Table<std::pair<Text, Text>, int64_t> holds{undo};       ///< project, SHA-256 -> size
  Table<Text, StoredToken> tokens{undo};
  Table<std::pair<Kind, Text>, int64_t> last_use{undo};
  Index<std::pair<Kind, Text>> pins{undo};
};

}  // namespace tessera::storage
