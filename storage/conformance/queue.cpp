// The task queue: order, kinds, positions; events: numbers without gaps.
#include <thread>

#include "gmock/gmock.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/conformance/samples.h"

namespace tessera::storage {
namespace {

using testing::ElementsAre;

std::string nextId(Store& store, const std::vector<v1::TaskKind>& kinds = {}) {
  absl::StatusOr<v1::Task> task = readOne(store, [&](Reader& r) { return r.nextReadyTask({.kinds = kinds}); });
  return task.ok() ? task->id() : std::string(task.status().message());
}

v1::Task taskOfTurn(int64_t turn, v1::Task task) {
  task.set_ticket(turn);
  return task;
}

TEST_P(StoreConformance, ReadyTasksLeaveByPriorityTurnPhaseTimeAndArrival) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putTask(taskOfTurn(2, sampleTask("late", v1::ASSEMBLE, 0, 10))).ok());
    EXPECT_TRUE(t.putTask(taskOfTurn(1, sampleTask("plan", v1::PLAN, 0, 5))).ok());
    EXPECT_TRUE(t.putTask(taskOfTurn(1, sampleTask("b first of two", v1::BUILD, 0, 15))).ok());
    EXPECT_TRUE(t.putTask(taskOfTurn(1, sampleTask("a second of two", v1::BUILD, 0, 15))).ok());
    EXPECT_TRUE(t.putTask(taskOfTurn(1, sampleTask("earlier build", v1::BUILD, 0, 12))).ok());
    return t.putTask(taskOfTurn(9, sampleTask("urgent", v1::EXECUTE, 5, 30)));
  }));
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(*readOne(*store_, [&](Reader& r) { return r.queuePosition("late"); }), 5 - i);
    EXPECT_EQ(*readOne(*store_, [&](Reader& r) { return r.queueLength(); }), 6 - i);
    order.push_back(nextId(*store_));
    ASSERT_OK(store_->transact([&](Transaction& t) {
      v1::Task task = *t.nextReadyTask({});
      task.set_state(v1::Task::LEASED);
      return t.putTask(task);
    }));
  }
  EXPECT_THAT(order, ElementsAre("urgent", "earlier build", "b first of two", "a second of two", "plan", "late"));
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [](Reader& r) { return r.nextReadyTask({}); }).status()));
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.leasedTasks(); })->size(), 6u);
  EXPECT_EQ(*readOne(*store_, [](Reader& r) { return r.queuePosition("late"); }), 0) << "it is no longer READY";
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [](Reader& r) { return r.queuePosition("none"); }).status()));
}

TEST_P(StoreConformance, ATaskIsPutAsLeasedOnlyUnderItsToken) {
  v1::Task task = sampleTask("t");
  const auto put = [&](int64_t token) {
    return store_->transact([&](Transaction& t) { return t.putLeasedTask(task, token); });
  };
  EXPECT_TRUE(absl::IsNotFound(put(0)));
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.putTask(task); }));
  EXPECT_TRUE(absl::IsAborted(put(0))) << "it is READY";
  ASSERT_OK(store_->transact([&](Transaction& t) {
    task = *t.claimReadyTask({});
    task.set_state(v1::Task::LEASED);
    task.set_fencing_token(7);
    return t.putTask(task);
  }));
  task.set_worker_id("w");
  EXPECT_TRUE(absl::IsAborted(put(6))) << "of a lease before";
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.getTask("t"); })->worker_id(), "");
  task.set_state(v1::Task::DONE);
  ASSERT_OK(put(7));
  EXPECT_TRUE(absl::IsAborted(put(7))) << "it is over";
}

TEST_P(StoreConformance, LargePartsOfATaskComeBackWhole) {
  v1::Task task = sampleTask("t");
  task.mutable_spec()->add_inputs()->set_sha256("input");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("a", "k")).ok());
    EXPECT_TRUE(t.putTask(task).ok());
    return t.linkTask("a", "t");
  }));
  const auto everywhere = [&](const char* when) {
    ASSERT_OK(store_->read([&](Reader& r) {
      const std::string bytes = task.SerializeAsString();
      EXPECT_EQ(r.getTask("t")->SerializeAsString(), bytes) << when;
      EXPECT_EQ(r.tasksOfAction("a")->front().SerializeAsString(), bytes) << when;
      EXPECT_EQ(r.listTasks({})->items.front().SerializeAsString(), bytes) << when;
      return r.forEach(Kind::kTask, [&](const Stored& stored) {
        EXPECT_EQ(stored.message->SerializeAsString(), bytes) << when;
        return absl::OkStatus();
      });
    }));
  };
  everywhere("ready");
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.nextReadyTask({}); })->SerializeAsString(),
            task.SerializeAsString());
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.liveTaskByKey("key of t"); })->SerializeAsString(),
            task.SerializeAsString());
  const auto change = [&] { ASSERT_OK(store_->transact([&](Transaction& t) { return t.putTask(task); })); };
  task.set_state(v1::Task::DONE);
  task.mutable_result()->mutable_build()->set_object_file("object");
  change();
  everywhere("with a result");
  task.mutable_spec()->mutable_inputs(0)->set_sha256("another");
  change();
  everywhere("with another specification");
  task.clear_result();
  change();
  everywhere("without the result again");
}

TEST_P(StoreConformance, WhoListensIsToldOfWhatBecameDurable) {
  std::vector<Notice> heard;
  auto listening = store_->listen([&](const Notice& notice) {
    // A store that other servers share says on each connection that it may have missed their notices.
    if (notice.missed) return;
    // A listener that is notified can see the transaction.
    EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.getTask("t"); }).ok());
    heard.push_back(notice);
  });
  EXPECT_FALSE(store_
                   ->transact([](Transaction& t) {
                     t.notify({1, {"lost"}});
                     return absl::CancelledError();
                   })
                   .ok());
  EXPECT_TRUE(heard.empty()) << "it was rolled back";
  const auto put = [&] {
    return store_->transact([](Transaction& t) {
      t.notify({2, {"job"}});
      return t.putTask(sampleTask("t"));
    });
  };
  ASSERT_OK(put());
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].tasks_ready, 2);
  EXPECT_THAT(heard[0].changed_jobs, ElementsAre("job"));
  ASSERT_OK(store_->transact([](Transaction& t) { return t.putTask(sampleTask("u")); }));
  EXPECT_EQ(heard.size(), 1u) << "nothing to tell";
  listening.reset();
  ASSERT_OK(put());
  EXPECT_EQ(heard.size(), 1u) << "nobody listens";
}

TEST_P(StoreConformance, WorkersGetOnlyKindsTheyTake) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putTask(sampleTask("plan", v1::PLAN, 9, 1)).ok());
    EXPECT_TRUE(t.putTask(sampleTask("build", v1::BUILD, 1, 1)).ok());
    return t.putTask(sampleTask("execute", v1::EXECUTE, 2, 1));
  }));
  EXPECT_EQ(nextId(*store_), "plan");
  EXPECT_EQ(nextId(*store_, {v1::BUILD}), "build");
  EXPECT_EQ(nextId(*store_, {v1::BUILD, v1::EXECUTE}), "execute");
  EXPECT_TRUE(
      absl::IsNotFound(readOne(*store_, [](Reader& r) { return r.nextReadyTask({.kinds = {v1::PROFILE}}); }).status()));
}

TEST_P(StoreConformance, ATaskThatIsNotAcceptedLetsOthersPass) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putTask(sampleTask("one", v1::BUILD, 3, 1)).ok());
    EXPECT_TRUE(t.putTask(sampleTask("two", v1::BUILD, 2, 1)).ok());
    return t.putTask(sampleTask("three", v1::PLAN, 1, 1));
  }));
  std::vector<std::string> asked;
  const auto only = [&](const std::string& wanted) {
    asked.clear();
    return QueueQuery{.accept = [&asked, wanted](const v1::Task& task) {
      asked.push_back(task.id());
      return task.id() == wanted;
    }};
  };
  EXPECT_EQ(readOne(*store_, [&](Reader& r) { return r.nextReadyTask(only("three")); })->id(), "three");
  EXPECT_THAT(asked, ElementsAre("one", "two", "three"));
  EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [&](Reader& r) { return r.nextReadyTask(only("")); }).status()));
  EXPECT_EQ(asked.size(), 3u);
}

TEST_P(StoreConformance, AProjectThatMayNotBeginCostsALookNothing) {
  const auto of = [](const std::string& project, v1::Task task) {
    task.set_project(project);
    return task;
  };
  v1::Action running = sampleAction("running", "k");
  running.set_state(v1::Job::RUNNING);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("begins later", "l")).ok());
    EXPECT_TRUE(t.putAction(running).ok());
    for (int i = 0; i < 500; ++i) {
      EXPECT_TRUE(t.putTask(of("full", sampleTask("f" + std::to_string(i), v1::PLAN, 5, i))).ok());
    }
    v1::Task tried = of("full", sampleTask("tried", v1::PLAN, 4, 0));
    tried.set_attempt(1);
    EXPECT_TRUE(t.putTask(tried).ok());
    EXPECT_TRUE(t.putTask(of("full", sampleTask("of one that runs", v1::PLAN, 3, 0))).ok());
    EXPECT_TRUE(t.linkTask("running", "of one that runs").ok());
    EXPECT_TRUE(t.putTask(of("full", sampleTask("of one that will", v1::BUILD, 2, 0))).ok());
    EXPECT_TRUE(t.linkTask("begins later", "of one that will").ok());
    EXPECT_TRUE(t.putTask(of("free", sampleTask("other", v1::PLAN, 1, 0))).ok());
    return t.putTask(sampleTask("last", v1::BUILD, 0, 0));
  }));
  std::vector<std::string> rows, projects;
  QueueQuery query;
  query.accept = [&](const v1::Task& task) {
    rows.push_back(task.id());
    return false;
  };
  query.may_not_start = [&](const std::string& project) {
    projects.push_back(project);
    return project == "full";
  };
  const auto look = [&] {
    rows.clear();
    projects.clear();
    EXPECT_TRUE(absl::IsNotFound(readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); }).status()));
  };
  look();
  EXPECT_THAT(rows, ElementsAre("tried", "of one that runs", "other", "last"))
      << "in the common order, without the 501";
  EXPECT_THAT(projects, testing::UnorderedElementsAre("full", "free", kDefaultProject)) << "each is asked about once";
  // Once the job has started, its other tasks are eligible, also after the task was put again.
  running.set_id("begins later");
  running.set_key("l");
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(running).ok());
    return t.putTask(of("full", sampleTask("of one that will", v1::BUILD, 2, 0)));
  }));
  look();
  EXPECT_THAT(rows, ElementsAre("tried", "of one that runs", "of one that will", "other", "last"));
  query.may_not_start = [](const std::string&) { return false; };
  look();
  EXPECT_EQ(rows.size(), 505u) << "nobody is full: everything, as without the question";
  const std::vector<std::string> asked = rows;
  query.may_not_start = {};
  look();
  EXPECT_EQ(rows, asked) << "in the same order";
}

TEST_P(StoreConformance, WaitingOutweighsPriorityInTime) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putTask(sampleTask("old", v1::PLAN, 0, 100)).ok());
    return t.putTask(sampleTask("urgent", v1::BUILD, 2, 1200));
  }));
  const auto first = [&](int64_t now_us) {
    const QueueQuery query = {.now_us = now_us, .ageing_us = 500};
    return readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); })->id();
  };
  EXPECT_EQ(first(1200), "urgent") << "2 against 0 + 2: the queue's order stands";
  EXPECT_EQ(first(1600), "old") << "2 against 0 + 3";
}

TEST_P(StoreConformance, PriorityAndWaitingAreWeighedTogether) {
  // Priority and ready time of the tasks of one project, and the expected choice at time 1000 with an ageing interval
  // of 100.
  struct Case {
    std::vector<std::pair<int, int64_t>> tasks;
    std::string chosen;
  };
  for (const Case& example : {
           Case{{{0, 0}, {5, 100}, {8, 900}}, "5"},            // 10, 14, 9
           Case{{{-9, 0}, {0, 100}, {8, 900}}, "8"},           // 1, 9, 9
           Case{{{-9, 0}, {0, 50}, {5, 300}, {8, 900}}, "5"},  // 1, 9, 12, 9
           Case{{{-1000, 0}, {0, 0}, {8, 900}}, "0"},          // -990, 10, 9
           Case{{{0, 0}, {5, 500}, {8, 900}}, "5"},            // 10, 10, 9
           Case{{{8, 900}, {8, 0}, {0, 0}}, "8"},              // 18: the first in queue order, before 10
       }) {
    std::vector<v1::Task> tasks;
    for (const auto& [priority, ready_us] : example.tasks) {
      tasks.push_back(sampleTask(std::to_string(tasks.size()), v1::BUILD, priority, ready_us));
    }
    const auto put = [&](v1::Task::State state) {
      ASSERT_OK(store_->transact([&](Transaction& t) {
        for (v1::Task& task : tasks) {
          task.set_state(state);
          EXPECT_OK(t.putTask(task));
        }
        return absl::OkStatus();
      }));
    };
    put(v1::Task::READY);
    const QueueQuery query = {.now_us = 1000, .ageing_us = 100};
    const auto first = readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); });
    ASSERT_OK(first.status());
    EXPECT_EQ(std::to_string(first->priority()), example.chosen) << "of " << testing::PrintToString(example.tasks);
    put(v1::Task::DONE);
  }
}

TEST_P(StoreConformance, WhatIsRefusedKeepsALookAtAgeShort) {
  const auto put = [](Transaction& t, const std::string& id, const std::string& project, int priority,
                      int64_t ready_us) {
    v1::Task task = sampleTask(id, v1::BUILD, priority, ready_us);
    task.set_project(project);
    return t.putTask(task);
  };
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_OK(put(t, "urgent", "a", 500, 1000));
    for (int i = 0; i < 2 * QueueQuery::kMaxAgedRejections; ++i) {
      EXPECT_OK(put(t, "refused" + std::to_string(i), "a", i % 2, i % 7));
    }
    return put(t, "old", "b", 0, 10);
  }));
  int asked = 0;
  QueueQuery query = {.now_us = 1000, .ageing_us = 1};
  query.accept = [&](const v1::Task& task) {
    ++asked;
    return !task.id().starts_with("refused");
  };
  absl::StatusOr<v1::Task> first = readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); });
  ASSERT_OK(first.status());
  EXPECT_EQ(first->id(), "old") << "another project's refused tasks are not in its way";
  // First the urgent task; then the old one, whose age adds 100; then the rest from that priority down, in queue order.
  EXPECT_LE(asked, 1 + QueueQuery::kMaxAgedRejections + 1 + QueueQuery::kMaxAgedRejections + 1);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Task done = sampleTask("old", v1::BUILD, 0, 10);
    done.set_project("b");
    done.set_state(v1::Task::DONE);
    EXPECT_OK(t.putTask(done));
    return put(t, "behind them", "a", 0, 10);
  }));
  first = readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); });
  ASSERT_OK(first.status());
  EXPECT_EQ(first->id(), "urgent") << "more than 100 that are refused are before the old one, in its own project";
}

TEST_P(StoreConformance, OnlyWhatCanBeHadAges) {
  const auto put = [](Transaction& t, const std::string& id, const std::string& project, int priority,
                      int64_t ready_us) {
    v1::Task task = sampleTask(id, v1::BUILD, priority, ready_us);
    task.set_project(project);
    return t.putTask(task);
  };
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 20; ++i) EXPECT_OK(put(t, "backlog" + std::to_string(i), "full", 0, i));
    for (int i = 0; i < 20; ++i) EXPECT_OK(put(t, "urgent backlog" + std::to_string(i), "full", 9, i));
    EXPECT_OK(put(t, "for another chip", "free", -1, 0));
    EXPECT_OK(put(t, "urgent", "free", 2, 1000));
    EXPECT_OK(put(t, "old", "free", 1, 400));
    return put(t, "plain", "free", -1, 900);
  }));
  QueueQuery query = {.now_us = 1000, .ageing_us = 100};
  query.accept = [](const v1::Task& task) { return task.id() != "for another chip"; };
  query.may_not_start = [](const std::string& project) { return project == "full"; };
  const auto first = [&] { return readOne(*store_, [&](Reader& r) { return r.nextReadyTask(query); })->id(); };
  EXPECT_EQ(first(), "old") << "1 + 6 against 2, whatever waits behind a full project";
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Task done = sampleTask("old", v1::BUILD, 1, 400);
    done.set_state(v1::Task::DONE);
    return t.putTask(done);
  }));
  EXPECT_EQ(first(), "urgent") << "2 against -1 + 1: neither 0 + 10 nor -1 + 10 can be had";
  query.may_not_start = {};
  EXPECT_EQ(first(), "urgent backlog0") << "9 + 10";
}

TEST_P(StoreConformance, ClientsTakeTurns) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int64_t i = 1; i <= 5; ++i) EXPECT_EQ(*t.takeTicket(0, "many"), i);
    EXPECT_EQ(*t.takeTicket(0, "few"), 1) << "as soon as the first of the others";
    EXPECT_EQ(*t.takeTicket(1, "many"), 1) << "each priority counts for itself";
    EXPECT_TRUE(t.ticketServed(0, 3).ok());
    EXPECT_EQ(*t.takeTicket(0, "few"), 4) << "what was served is over";
    EXPECT_EQ(*t.takeTicket(0, "many"), 6);
    EXPECT_TRUE(t.ticketServed(0, 2).ok());
    EXPECT_EQ(*t.takeTicket(0, "new"), 4) << "an older turn served late takes nothing back";
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, TheOldestReadyTasksAreFound) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(t.putTask(sampleTask("t" + std::to_string(i), v1::BUILD, i, 50 - i)).ok());
    return t.putTask(sampleTask("plan", v1::PLAN, 0, 1));
  }));
  auto found = readOne(*store_, [](Reader& r) { return r.readySince(v1::BUILD, 48, 2); });
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).id(), "t4");
  EXPECT_EQ(found->at(1).id(), "t3");
  EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.readySince(v1::BUILD, 45, 9); })->empty());
}

TEST_P(StoreConformance, TheQueueIsCountedByKind) {
  EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.queueDepths(); })->empty());
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(t.putTask(sampleTask("b" + std::to_string(i), v1::BUILD, i, 50 - i)).ok());
    v1::Task leased = sampleTask("leased", v1::BUILD, 0, 1);
    leased.set_state(v1::Task::LEASED);
    EXPECT_TRUE(t.putTask(leased).ok());
    return t.putTask(sampleTask("plan", v1::PLAN, 0, 7));
  }));
  const auto depths = readOne(*store_, [](Reader& r) { return r.queueDepths(); });
  ASSERT_EQ(depths->size(), 2u);
  EXPECT_EQ(depths->at(0).kind, v1::PLAN);
  EXPECT_EQ(depths->at(0).ready, 1);
  EXPECT_EQ(depths->at(0).oldest_ready_us, 7);
  EXPECT_EQ(depths->at(1).kind, v1::BUILD);
  EXPECT_EQ(depths->at(1).ready, 5) << "over all priorities, without what is leased";
  EXPECT_EQ(depths->at(1).oldest_ready_us, 46);
}

TEST_P(StoreConformance, TheQueueIsCountedByTarget) {
  EXPECT_TRUE(readOne(*store_, [](Reader& r) { return r.targetDepths(); })->empty());
  const auto measurement = [](const std::string& id, int priority, const std::string& target) {
    v1::Task task = sampleTask(id, v1::MEASURE, priority, 1);
    task.set_target(target);
    return task;
  };
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(t.putTask(measurement("z" + std::to_string(i), i, "zen4")).ok());
    EXPECT_TRUE(t.putTask(measurement("c", 0, "cascadelake")).ok());
    EXPECT_TRUE(t.putTask(measurement("c2", 0, "cascadelake")).ok());
    return t.putTask(sampleTask("plan", v1::PLAN, 0, 7));
  }));
  const auto depths = [&] {
    std::vector<std::string> texts;
    const auto found = readOne(*store_, [](Reader& r) { return r.targetDepths(); });
    for (const TargetDepth& depth : *found) {
      texts.push_back(v1::TaskKind_Name(depth.kind) + " " + depth.target + " " + std::to_string(depth.ready));
    }
    return texts;
  };
  EXPECT_THAT(depths(), testing::ElementsAre("PLAN  1", "MEASURE cascadelake 2", "MEASURE zen4 3"));
  ASSERT_OK(store_->transact([&](Transaction& t) {
    v1::Task changed = measurement("z0", 0, "zen4");
    changed.set_state(v1::Task::LEASED);
    EXPECT_TRUE(t.putTask(changed).ok());
    v1::Task urgent = measurement("z1", 7, "zen4");
    EXPECT_TRUE(t.putTask(urgent).ok());
    for (const char* id : {"c", "c2"}) {
      v1::Task done = measurement(id, 0, "cascadelake");
      done.set_state(v1::Task::DONE);
      EXPECT_TRUE(t.putTask(done).ok());
    }
    return absl::OkStatus();
  }));
  EXPECT_THAT(depths(), testing::ElementsAre("PLAN  1", "MEASURE zen4 2")) << "neither leased tasks nor ended ones";
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.putTask(measurement("z0", 0, "zen4")); }));
  EXPECT_THAT(depths(), testing::ElementsAre("PLAN  1", "MEASURE zen4 3")) << "given back";
}

TEST_P(StoreConformance, BlobsAreCounted) {
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.blobTotals(); })->blobs, 0);
  ASSERT_OK(store_->transact([&](Transaction& t) {
    for (int i = 0; i < 3; ++i) {
      v1::Digest digest;
      digest.set_sha256(std::string(64, static_cast<char>('a' + i)));
      digest.set_size_bytes(100 + i);
      EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok());
      EXPECT_TRUE(t.putBlob(digest, kDefaultProject).ok()) << "again: the same one";
    }
    return absl::OkStatus();
  }));
  const auto totals = readOne(*store_, [](Reader& r) { return r.blobTotals(); });
  EXPECT_EQ(totals->blobs, 3);
  EXPECT_EQ(totals->bytes, 303);
}

TEST_P(StoreConformance, LivingTasksAreFoundByKey) {
  v1::Task task = sampleTask("t");
  task.set_key("unit");
  ASSERT_OK(store_->transact([&](Transaction& t) { return t.putTask(task); }));
  EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.liveTaskByKey("unit"); })->id(), "t");
  for (v1::Task::State state : {v1::Task::LEASED, v1::Task::DONE}) {
    task.set_state(state);
    ASSERT_OK(store_->transact([&](Transaction& t) { return t.putTask(task); }));
    EXPECT_EQ(readOne(*store_, [](Reader& r) { return r.liveTaskByKey("unit"); }).ok(), state == v1::Task::LEASED);
  }
}

TEST_P(StoreConformance, ATaskMayServeSeveralActions) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("a", "k1")).ok());
    EXPECT_TRUE(t.putAction(sampleAction("b", "k2")).ok());
    for (const char* id : {"t2", "t1"}) EXPECT_TRUE(t.putTask(sampleTask(id)).ok());
    EXPECT_TRUE(t.linkTask("b", "t2").ok());
    EXPECT_TRUE(t.linkTask("a", "t2").ok());
    return t.linkTask("a", "t1");
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_THAT(*r.actionsOfTask("t2"), ElementsAre("b", "a"));
    EXPECT_THAT(*r.actionsOfTask("none"), ElementsAre());
    EXPECT_EQ(r.tasksOfAction("a")->at(0).id(), "t2") << "in the order they were linked";
    EXPECT_EQ(r.tasksOfAction("a")->at(1).id(), "t1");
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, TheJobsBehindATaskAreCountedAndTheFirstAreNamed) {
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.putAction(sampleAction("a", "k1")).ok());
    EXPECT_TRUE(t.putAction(sampleAction("b", "k2")).ok());
    EXPECT_TRUE(t.putTask(sampleTask("t")).ok());
    EXPECT_TRUE(t.linkTask("b", "t").ok());
    EXPECT_TRUE(t.linkTask("a", "t").ok());
    for (int i = 0; i < 40; ++i) {
      v1::Job job = sampleJob("j" + std::to_string(i));
      if (i == 3) job.set_state(v1::Job::SUCCEEDED);
      EXPECT_TRUE(t.insertJob(job, "h", i % 2 ? "b" : "a").ok());
    }
    return absl::OkStatus();
  }));
  ASSERT_OK(store_->read([&](Reader& r) {
    EXPECT_EQ(r.liveJobsOfTask("t", 4)->count, 39) << "without the one that has ended";
    EXPECT_THAT(r.liveJobsOfTask("t", 4)->first, ElementsAre("j1", "j5", "j7", "j9"));
    EXPECT_EQ(r.liveJobsOfTask("t", 100)->first.size(), 39u);
    EXPECT_EQ(r.liveJobsOfTask("none", 4)->count, 0);
    return absl::OkStatus();
  }));
}

TEST_P(StoreConformance, EventsAreNumberedWithoutGapsUnderConcurrency) {
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  ASSERT_OK(store_->transact([&](Transaction& t) {
    EXPECT_TRUE(t.insertJob(sampleJob("j"), "h", "").ok());
    return t.insertJob(sampleJob("other"), "h", "");
  }));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const bool fails = i % 5 == 4;  // a rolled-back transaction must not use up a number
        absl::Status status = store_->transact([&](Transaction& t) -> absl::Status {
          v1::JobEvent event;
          event.set_job_id("j");
          event.set_time_us(thread);
          TESSERA_RETURN_IF_ERROR(t.appendEvent(event).status());
          return fails ? absl::CancelledError("on purpose") : absl::OkStatus();
        });
        EXPECT_EQ(status.ok(), !fails) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int total = kThreads * kEach * 4 / 5;
  auto events = readOne(*store_, [&](Reader& r) { return r.eventsAfter("j", 0, total + 1); });
  ASSERT_OK(events.status());
  ASSERT_EQ(static_cast<int>(events->size()), total);
  for (int i = 0; i < total; ++i) EXPECT_EQ((*events)[i].sequence(), i + 1);
  auto tail = readOne(*store_, [&](Reader& r) { return r.eventsAfter("j", total - 3, 2); });
  ASSERT_EQ(tail->size(), 2u);
  EXPECT_EQ(tail->front().sequence(), total - 2);
  EXPECT_TRUE(readOne(*store_, [&](Reader& r) { return r.eventsAfter("other", 0, 9); })->empty());
  EXPECT_TRUE(absl::IsNotFound(store_->transact([](Transaction& t) {
    v1::JobEvent event;
    event.set_job_id("none");
    return t.appendEvent(event).status();
  })));
}

}  // namespace
}  // namespace tessera::storage
