/* How replicas agree, as a model small enough to be searched whole. One key; each replica takes one ticket for it, and
   the tickets of the first MESSAGES replicas are accepted messages. The words are those of ARCHITECTURE.md, the rules
   (R1 to R13) those of docs/guarantees.md, and docs/model.md says what is left out.

   Each d_step is one thing that happens: a step of the store, a replica that hears an answer, a tick of the clock. A
   tick is a third of a lease, so lease, trust, gap and quarantine are the engine's own, in whole ticks. Ages count up to
   where they make no more difference. Faults are budgets, spent at any time. -DBUG=n leaves a rule out: docs/model.md. */

#ifndef N
#define N 3                     /* replicas */
#endif
#ifndef MESSAGES
#define MESSAGES 1              /* so many of the tickets are messages */
#endif
#ifndef BUG
#define BUG 0
#endif
/* Faults, so many of each, none unless given: a replica that stops for any time (frozen, blocked, cut off); that crashes;
   that stops in good order; a request or an answer held up for any time; a server that restarts with its data, or without;
   a leap of its clock, by a tick or beyond every lease. TWIN=1: the last replica is a later start of the first, by its name. */
#if !defined(PAUSES)
#define PAUSES 0
#endif
#if !defined(CRASHES)
#define CRASHES 0
#endif
#if !defined(STOPS)
#define STOPS 0
#endif
#if !defined(SLOW)
#define SLOW 0
#endif
#if !defined(RESTARTS)
#define RESTARTS 0
#endif
#if !defined(WIPES)
#define WIPES 0
#endif
#if !defined(LEAPS)
#define LEAPS 0
#endif
#if !defined(TWIN)
#define TWIN 0
#endif

#define LEASE 3
#define GAP 1
#define QUARANTINE 3
#if BUG == 2
#define TRUST 4
#else
#define TRUST 2
#endif

#define NOBODY 255
#define NONE 0                  /* what a replica has of a ticket: nothing, a place that waits, or a fence (2 and up) */
#define WAITING 1
#define NEWER 254               /* in a view: nothing, but there is no answer yet to the batch that may bring it */
#define GONE 255                /* what a heartbeat's answer says of a ticket that is lost */
#define LISTS(r, t) (view[AT(r, t)] != NONE && view[AT(r, t)] != NEWER)
mtype = { UNBORN, IN, OUT, LEAVING, OFF, ALIVE, DEAD, REPLACED, REQUEST, ANSWER, RESERVE, RELEASE };

/* ── The store ── */
bool live[N], proven[N], replaced[N];   /* R1: an epoch that is not here is dead */
byte beatAge[N];                        /* since its last heartbeat */
byte unbroken[N];                       /* since the start of its unbroken row of heartbeats */
byte epoch[N], epochs;
byte queue[N], length;                  /* tickets in order; the first one is the head */
byte owner[N] = NOBODY;
byte fence[N];                          /* 0: never granted to this owner */
bool confirmed[N];                      /* granted or confirmed in this era */
bool offered[N];                        /* handed to its owner unasked, and not yet listed by it */
bool batched[N];                        /* a batch of its owner brought it, and not a heartbeat */
bool unheard[N];                        /* its owner has not heard the answer to that batch */
byte last = 1, era;                      /* the last fence; fences begin with 2 */
bool quarantine, changed;               /* changed: the server is another one, and no step has noticed yet */

/* ── The replicas ── */
mtype phase[N] = UNBORN;
bool paused[N], beaten[N];              /* beaten: has sent its heartbeat of this tick */
byte trust[N];                          /* since it sent its last answered heartbeat */
byte known[N], watched[N];              /* the era it knows, and for how long */
byte place[N * N];
mtype flight[N] = OFF;                  /* its heartbeat on the way: REQUEST or ANSWER */
mtype said[N] = OFF;
byte sent[N], view[N * N], viewEra[N], viewWatched[N], answer[N * N], saidEra[N];
mtype asked[N] = OFF;                   /* its operation whose answer it has not heard: RESERVE or RELEASE */
byte askedFor[N], reply[N], replyEra[N], bonus[N] = NOBODY, bonusFence[N];
bool tried[N];
byte holding[N] = NOBODY;               /* the ticket by which it believes to hold the key */
byte pushed[N] = NOBODY, pushedFence[N], pushedEra[N];

/* ── What is left of the faults, and what only the judge knows ── */
byte pauses = PAUSES, crashes = CRASHES, stops = STOPS, slow = SLOW, restarts = RESTARTS, wipes = WIPES, leaps = LEAPS;
byte topFence;
bool ended[N];
#if BUG == 6
bool again;
#endif
byte owed;                              /* places in the queue and in the hands of replicas */
hidden byte i, j, k, h, a, o, w, n, believers;
hidden byte news, newsFence;            /* what the step under way grants or hands to its caller */
hidden byte unsettled;                  /* in this step the head became another one, or lost its owner, or was asked for */

#define AT(r, t) ((r) * N + (t))
#define IS_MESSAGE(t) ((t) < MESSAGES)
#define IS_HEAD(t) (length > 0 && queue[0] == (t))
#define IS_GRANTED(t) (fence[t] != 0 && confirmed[t])
#define ENDING(r, t) (asked[r] == RELEASE && askedFor[r] == (t))
#define HOLDS(r, t) (phase[r] == IN && trust[r] < TRUST && place[AT(r, t)] > WAITING && !ENDING(r, t))
#define ACTS(r) (phase[r] == IN && !paused[r])
#define HAS_ELDER(r) (TWIN == 1 && (r) == N - 1)
#define WHEN(is, then) if :: is -> then :: else fi

/* ── A replica forgets ── */

inline clearFlight(me) {
  flight[me] = OFF; said[me] = OFF; sent[me] = 0; viewEra[me] = 0; viewWatched[me] = 0; saidEra[me] = 0;
  for (k : 0 .. N - 1) { view[AT(me, k)] = NONE; answer[AT(me, k)] = 0 }
}

inline forgetPush(me) { pushed[me] = NOBODY; pushedFence[me] = 0; pushedEra[me] = 0 }

inline forgetOperation(me) { asked[me] = OFF; askedFor[me] = 0; reply[me] = 0; replyEra[me] = 0; bonus[me] = NOBODY; bonusFence[me] = 0 }

/* Its epoch is over: all it had is lost. */
inline drop(me, into) {
  phase[me] = into; trust[me] = TRUST;
  clearFlight(me); forgetOperation(me); forgetPush(me);
  for (k : 0 .. N - 1) { place[AT(me, k)] = NONE }
  WHEN(into != OUT, known[me] = 0; watched[me] = 0; beaten[me] = false; paused[me] = false)
}

/* ── The steps of the store ── */

/* R9: a server that may have lost writes begins an era, in which no old grant counts and nobody is a witness yet. */
inline begin() {
  if
  :: changed -> changed = false; era++; quarantine = (BUG != 3);
     for (k : 0 .. N - 1) { confirmed[k] = (BUG == 3 && confirmed[k]); WHEN(live[k], unbroken[k] = 0) }
  :: else
  fi
}

/* R8: a fence is greater than every earlier one, also when the counter was lost, for the clock went on. */
inline hold(t) {
  last++; fence[t] = last; confirmed[t] = true;
  assert(last > topFence);                            /* fences rise */
  topFence = last
}

/* R13: who made the step hears of it in the answer, anybody else by a push. */
inline grant(t, me) {
  assert(live[owner[t]]);                             /* no grant to the dead */
  hold(t);
  if
  :: owner[t] == me -> news = t; newsFence = fence[t]
  :: else -> pushed[owner[t]] = t; pushedFence[owner[t]] = fence[t]; pushedEra[owner[t]] = era
  fi
}

inline forsake(t) { owner[t] = NOBODY; fence[t] = 0; confirmed[t] = false; offered[t] = false; batched[t] = false; unheard[t] = false }

inline takeOut(t) {
  WHEN(IS_HEAD(t), unsettled = true);
  j = 0; do :: queue[j] == t -> break :: else -> j++ od;
  length--;
  do :: j < length -> queue[j] = queue[j + 1]; j++ :: else -> break od;
  queue[length] = 0;
  forsake(t)
}

/* Who takes over a message: the caller, else the live epoch with the fewest tickets, the oldest of those. */
inline chooseAdopter(me) {
  a = me; w = NOBODY;
  for (j : 0 .. N - 1) {
    if
    :: me == NOBODY && live[j] && proven[j] && !replaced[j] ->
       n = 0; for (k : 0 .. N - 1) { WHEN(owner[k] == j, n++) }
       WHEN(n < w || (n == w && epoch[j] < epoch[a]), w = n; a = j)
    :: else
    fi
  }
}

/* Brings the head to a live owner and grants it: skips the dead, hands their messages on. What a replaced replica held
   stays its own until its end. */
#define KEEPS(t) (IS_GRANTED(t) || (replaced[owner[t]] && fence[t] != 0))
inline settle(me) {
  do
  :: !unsettled || length == 0 -> break
  :: else -> h = queue[0];
     if
     :: owner[h] != NOBODY && KEEPS(h) && !(BUG == 9 && replaced[owner[h]]) -> break
     :: owner[h] != NOBODY && !replaced[owner[h]] && !KEEPS(h) -> WHEN(!quarantine, grant(h, me)); break
     :: else ->
        if
        :: !IS_MESSAGE(h) -> takeOut(h)
        :: else ->
           forsake(h); chooseAdopter(me);
           if
           :: quarantine || a == NOBODY -> break      /* an orphan, until a heartbeat finds it */
           :: else -> owner[h] = a; offered[h] = true; hold(h); WHEN(a == me, news = h; newsFence = fence[h])
           fi
        fi
     fi
  od;
  unsettled = false
}

/* R1: to be no longer in the table is death. All that the dead had counts no more. */
inline bury(x) {
  live[x] = false; proven[x] = false; replaced[x] = false; beatAge[x] = 0; unbroken[x] = 0;
  WHEN(length > 0 && owner[queue[0]] == x, unsettled = true);
  for (k : 0 .. N - 1) { WHEN(owner[k] == x && BUG != 8, owner[k] = NOBODY; unheard[k] = false) }
}

/* R2: who has an unbroken row of heartbeats for a whole lease, the last one not long ago, may bury whose lease is over. */
#define IS_WITNESS(me) ((beatAge[me] <= GAP && unbroken[me] >= LEASE) || BUG == 1)
#define IS_OVER(x, me) (live[x] && (x) != (me) && beatAge[x] > LEASE && IS_WITNESS(me) && BUG != 11)
inline declareDead(x) {
  assert(!(phase[x] == IN && trust[x] < TRUST));      /* trust ends before death */
  bury(x)
}

/* R4: the first that is heard of a later start after its join takes the name. */
inline prove(me) {
  WHEN(!proven[me] && HAS_ELDER(me) && live[0], replaced[0] = true; unsettled = (length > 0 && owner[queue[0]] == 0));
  proven[me] = true
}

inline join(me) {
  begin();
  if
  :: TWIN == 1 && me == 0 && live[N - 1] && proven[N - 1] -> drop(me, OFF)
  :: else ->
     live[me] = true; proven[me] = false; replaced[me] = false; beatAge[me] = 0; unbroken[me] = 0; epochs++; epoch[me] = epochs;
     phase[me] = IN; trust[me] = 0; beaten[me] = true;
     WHEN(known[me] != era, known[me] = era; watched[me] = 0)
  fi
}

/* R10, R11: what the caller lists is confirmed. R12: what it should know of and does not list is given back. */
inline compareView(me) {
  for (i : 0 .. N - 1) {
    if
    :: owner[i] == me && LISTS(me, i) -> offered[i] = false;
       WHEN(IS_HEAD(i) && view[AT(me, i)] == fence[i], confirmed[i] = true);
       WHEN(IS_HEAD(i) && view[AT(me, i)] == WAITING && BUG != 10, unsettled = true)
    :: owner[i] == me && view[AT(me, i)] == NONE && !offered[i] -> if :: IS_MESSAGE(i) -> owner[i] = NOBODY; WHEN(IS_HEAD(i), unsettled = true) :: else -> takeOut(i) fi
    :: else
    fi
  }
}

/* R11: the answer tells where the store differs from the view: what was granted, lost, or is to be taken over. */
inline answerView(me) {
  for (i : 0 .. N - 1) {
    if
    :: !LISTS(me, i) && owner[i] == me && offered[i] && (!batched[i] || view[AT(me, i)] == NONE || BUG == 15) && !quarantine ->
       WHEN(!IS_GRANTED(i), hold(i)); answer[AT(me, i)] = fence[i]
    :: view[AT(me, i)] == WAITING && owner[i] == me && BUG != 10 -> answer[AT(me, i)] = (IS_HEAD(i) && IS_GRANTED(i) -> fence[i] : 0)
    :: LISTS(me, i) && BUG != 12 && (owner[i] != me || (view[AT(me, i)] != WAITING && view[AT(me, i)] != fence[i])) -> answer[AT(me, i)] = GONE
    :: else
    fi
  }
}

inline beatArrives(me) {
  begin(); flight[me] = ANSWER; saidEra[me] = era;
  if
  :: !live[me] -> said[me] = (BUG == 12 -> ALIVE : DEAD)             /* R3: refused as a whole */
  :: replaced[me] -> said[me] = REPLACED
  :: else -> said[me] = ALIVE;
     prove(me);
     WHEN(beatAge[me] > GAP, unbroken[me] = 0); beatAge[me] = 0;
     WHEN(viewEra[me] == era && (viewWatched[me] >= QUARANTINE || BUG == 4), quarantine = false);
     for (o : 0 .. N - 1) { WHEN(IS_OVER(o, me), declareDead(o)) }
     h = (length > 0 -> owner[queue[0]] : NOBODY);
     WHEN(BUG == 7 && h != NOBODY && h != me && beatAge[h] > 0 && IS_MESSAGE(queue[0]), owner[queue[0]] = NOBODY; unsettled = true);
     settle(me); compareView(me);
     WHEN(length > 0 && owner[queue[0]] == NOBODY && !quarantine, unsettled = true);
     settle(me); answerView(me)
  fi
}

/* Takes a place at the end of the queue. A dead owner of the head is cleared away, so that nobody queues behind the dead. */
inline enqueue(t, me) {
  for (k : 0 .. length - 1) { assert(queue[k] != t) }
  assert(!ended[t]);                                  /* one reservation, one place */
  queue[length] = t; length++; owner[t] = me; batched[t] = true; unheard[t] = true;
  o = owner[queue[0]];
  WHEN(length == 1 || o == NOBODY, unsettled = true);
  WHEN(length > 1 && o != NOBODY && IS_OVER(o, me), declareDead(o))
}

/* A release counts only from the owner of the ticket. */
inline release(t, me) {
  if
  :: owner[t] == me -> ended[t] = true;
     o = queue[0]; WHEN(BUG == 5 && o != t, takeOut(o));
     takeOut(t)
  :: else
  fi
}

/* R7: an operation is done once, and its answer is kept until the next one. What it freed is granted in the same step. */
inline operationArrives(me, what, t) {
  begin(); asked[me] = what; askedFor[me] = t; replyEra[me] = era;
  if
  :: !live[me] || replaced[me]
  :: else -> prove(me);
     news = NOBODY;
     if :: what == RESERVE -> enqueue(t, me) :: else -> release(t, me) fi;
     settle(me);
     WHEN(what == RESERVE, reply[me] = (IS_HEAD(t) && IS_GRANTED(t) -> fence[t] : WAITING));
     WHEN(news != NOBODY && news != t, bonus[me] = news; bonusFence[me] = newsFence);
     WHEN(bonus[me] != NOBODY && offered[bonus[me]], batched[bonus[me]] = true; unheard[bonus[me]] = true)
  fi
}

inline leave(me) {
  begin();
  if
  :: live[me] -> for (k : 0 .. N - 1) { WHEN(owner[k] == me && IS_MESSAGE(k), fence[k] = 0) } bury(me); settle(NOBODY)
  :: else
  fi;
  drop(me, OFF)
}

/* ── What a replica does with what it hears ── */

/* R6: trust that ran out is a loss. What was granted under it has to be granted anew. */
inline lapse(me) { for (k : 0 .. N - 1) { WHEN(place[AT(me, k)] > WAITING && !ENDING(me, k), place[AT(me, k)] = WAITING) } }

/* A grant of another era than the last heartbeat's, or that comes without trust, is not believed. */
inline believe(me, t, f, ofEra) {
  WHEN(ofEra == known[me] && trust[me] < TRUST && !ENDING(me, t) && place[AT(me, t)] != NONE && f > place[AT(me, t)], place[AT(me, t)] = f)
}

inline send(me) {
  beaten[me] = true; flight[me] = REQUEST; sent[me] = 0; viewEra[me] = known[me]; viewWatched[me] = watched[me];
  for (k : 0 .. N - 1) { view[AT(me, k)] = (place[AT(me, k)] == NONE && !(owner[k] == me && !unheard[k]) -> NEWER : place[AT(me, k)]) }
}

inline hearBeat(me) {
  if
  :: said[me] == DEAD -> drop(me, OUT)
  :: said[me] == REPLACED -> drop(me, LEAVING)
  :: else ->
     for (i : 0 .. N - 1) {
       WHEN(saidEra[me] != known[me] && place[AT(me, i)] > WAITING && place[AT(me, i)] != view[AT(me, i)] && !ENDING(me, i), place[AT(me, i)] = WAITING);
       WHEN(answer[AT(me, i)] == GONE && place[AT(me, i)] == view[AT(me, i)] && !ENDING(me, i), place[AT(me, i)] = NONE)
     }
     WHEN(saidEra[me] != known[me], known[me] = saidEra[me]; watched[me] = 0);
     trust[me] = (BUG == 13 -> 0 : sent[me]);         /* R5: from before it was sent */
     WHEN(trust[me] >= TRUST, lapse(me));
     for (i : 0 .. N - 1) {
       if
       :: answer[AT(me, i)] > WAITING && answer[AT(me, i)] != GONE ->
          WHEN(!LISTS(me, i) && place[AT(me, i)] == NONE, place[AT(me, i)] = WAITING);   /* taken over */
          believe(me, i, answer[AT(me, i)], saidEra[me])
       :: else
       fi
     }
     clearFlight(me)
  fi
}

inline hearOperation(me) {
  if
  :: !live[me] -> drop(me, OUT)
  :: live[me] && replaced[me] -> drop(me, LEAVING)
  :: else ->
     o = askedFor[me]; h = bonus[me]; place[AT(me, o)] = (asked[me] == RESERVE -> WAITING : NONE);
     asked[me] = OFF;
     WHEN(reply[me] > WAITING, believe(me, o, reply[me], replyEra[me]));
     if
     :: h != NOBODY -> WHEN(offered[h] && owner[h] == me && place[AT(me, h)] == NONE, place[AT(me, h)] = WAITING);
        believe(me, h, bonusFence[me], replyEra[me])
     :: else
     fi;
     for (k : 0 .. N - 1) { WHEN(owner[k] == me, unheard[k] = false) }
     forgetOperation(me)
  fi
}

/* ── Judging, and telling what the replay on the real store is held to ── */

inline judge() {
  owed = length; believers = 0;
  printf("=");
  for (i : 0 .. N - 1) {
    holding[i] = NOBODY;
    for (k : 0 .. N - 1) { WHEN(place[AT(i, k)] != NONE, owed++); WHEN(HOLDS(i, k), holding[i] = k; believers++) }
    printf(" %d:%d", live[i], holding[i])
  }
  printf(" |"); for (i : 0 .. N - 1) { WHEN(i < length, printf(" %d:%d:%d", queue[i], owner[queue[i]], IS_GRANTED(queue[i]))) }
  printf(" | %d\n", quarantine);
  assert(believers <= 1)                              /* exclusion */
}

/* Each choice is one thing that happens; how it happens follows, once for all that are alike. */
mtype = { BEAT, SEND, ARRIVE, HEAR, GIVE_UP, OPERATE, ASK_AGAIN, DOUBLED, PUSH, PUSH_LOST, JOIN, LEAVE, CRASH, PAUSE, RESUME };
#define MAY_BEAT(r) (ACTS(r) && !beaten[r] && flight[r] == OFF)
#define MAY_OPERATE(r) (ACTS(r) && asked[r] == OFF)

proctype Replica(byte r) {
  mtype what, op; byte t; bool prompt;
  do
  :: atomic {
    if
    :: MAY_BEAT(r) -> what = BEAT
    :: MAY_BEAT(r) && slow > 0 -> slow--; what = SEND
    :: flight[r] == REQUEST -> what = ARRIVE
    :: ACTS(r) && flight[r] == ANSWER -> what = HEAR
    :: ACTS(r) && flight[r] != OFF -> what = GIVE_UP
    :: MAY_OPERATE(r) && !tried[r] -> tried[r] = true; what = OPERATE; op = RESERVE; t = r; prompt = true
    :: MAY_OPERATE(r) && !tried[r] && slow > 0 -> slow--; tried[r] = true; what = OPERATE; op = RESERVE; t = r
    :: MAY_OPERATE(r) && holding[r] != NOBODY -> what = OPERATE; op = RELEASE; t = holding[r]; prompt = true
    :: MAY_OPERATE(r) && holding[r] != NOBODY && slow > 0 -> slow--; what = OPERATE; op = RELEASE; t = holding[r]
    :: MAY_OPERATE(r) && place[AT(r, r)] == WAITING && !IS_MESSAGE(r) -> what = OPERATE; op = RELEASE; t = r; prompt = true
    :: ACTS(r) && asked[r] != OFF -> what = ASK_AGAIN
#if BUG == 6
    :: tried[r] && live[r] && !again -> again = true; what = DOUBLED
#endif
    :: ACTS(r) && pushed[r] != NOBODY -> what = PUSH
    :: pushed[r] != NOBODY -> what = PUSH_LOST
    :: (phase[r] == OUT || phase[r] == UNBORN) && !paused[r] -> what = JOIN
    :: phase[r] == LEAVING -> what = LEAVE
    :: ACTS(r) && stops > 0 -> stops--; what = LEAVE
    :: phase[r] != OFF && phase[r] != UNBORN && crashes > 0 -> crashes--; what = CRASH
    :: ACTS(r) && pauses > 0 -> pauses--; what = PAUSE
    :: paused[r] -> what = RESUME
    fi;
    d_step {
      printf("> %e %d %e %d %d\n", what, r, op, t, prompt);
      WHEN(what == BEAT || what == SEND, send(r));
      WHEN(what == BEAT || what == ARRIVE, beatArrives(r));
      WHEN(what == BEAT || what == HEAR, hearBeat(r));
      WHEN(what == GIVE_UP, clearFlight(r));
      WHEN(what == OPERATE, operationArrives(r, op, t));
      WHEN(what == ASK_AGAIN, begin());
      WHEN((what == OPERATE && prompt) || what == ASK_AGAIN, hearOperation(r));
#if BUG == 6
      WHEN(what == DOUBLED, enqueue(r, r));
#endif
      WHEN(what == PUSH, h = pushed[r]; believe(r, h, pushedFence[r], pushedEra[r]));
      WHEN(what == PUSH || what == PUSH_LOST, forgetPush(r));
      WHEN(what == JOIN, join(r));
      WHEN(what == LEAVE, leave(r));
      WHEN(what == CRASH, drop(r, OFF));
      WHEN(what == PAUSE || what == RESUME, paused[r] = (what == PAUSE));
      what = OFF; op = OFF; t = 0; prompt = false;
      judge()
    } }
  od
}

/* Nobody who runs is late: all have sent their heartbeat of this tick. Where all must end, nobody is slow to end a turn either. */
#if ALL_END == 1
#define IS_READY(r) (paused[r] || (phase[r] != IN && phase[r] != OUT && phase[r] != LEAVING) || (phase[r] == IN && (beaten[r] || flight[r] != OFF) && holding[r] == NOBODY && asked[r] == OFF))
#else
#define IS_READY(r) (paused[r] || (phase[r] != IN && phase[r] != OUT) || (phase[r] == IN && (beaten[r] || flight[r] != OFF)))
#endif

#if N == 2
#define ALL_READY (IS_READY(0) && IS_READY(1))
#elif N == 3
#define ALL_READY (IS_READY(0) && IS_READY(1) && IS_READY(2))
#else
#define ALL_READY (IS_READY(0) && IS_READY(1) && IS_READY(2) && IS_READY(3))
#endif

inline older(x) {
  WHEN(live[x] && beatAge[x] <= LEASE, beatAge[x]++);
  WHEN(live[x] && unbroken[x] < LEASE, unbroken[x]++);
  WHEN(beatAge[x] > GAP, unbroken[x] = 0)             /* its next heartbeat begins a new row in any case */
}

inline tick() {
  for (i : 0 .. N - 1) {
    beaten[i] = false;
    WHEN(phase[i] == IN && trust[i] < TRUST, trust[i]++; WHEN(trust[i] >= TRUST, lapse(i)));
    WHEN((phase[i] == IN || phase[i] == OUT) && watched[i] < QUARANTINE, watched[i]++);
    WHEN(flight[i] != OFF && sent[i] < TRUST, sent[i]++)
  }
}

inline wipe() {
  last = (BUG == 14 -> 1 : last); length = 0; quarantine = false;
  for (i : 0 .. N - 1) { live[i] = false; proven[i] = false; replaced[i] = false; beatAge[i] = 0; unbroken[i] = 0; queue[i] = 0; forsake(i) }
}

mtype = { TICK, LEAP, RESTART, WIPE };
proctype World() {
  mtype what; byte ticks;
  do
  :: atomic {
    if
    :: ALL_READY -> what = TICK; ticks = 1
    :: leaps > 0 -> leaps--; what = LEAP; ticks = 1
    :: leaps > 0 -> leaps--; what = LEAP; ticks = LEASE + 1
    :: restarts > 0 -> restarts--; what = RESTART
    :: wipes > 0 -> wipes--; what = WIPE
    fi;
    d_step {
      printf("> %e %d\n", what, ticks);
      WHEN(what == TICK, tick()); WHEN(what == WIPE, wipe());
      WHEN(what == RESTART || what == WIPE, changed = true);
      for (o : 1 .. ticks) { for (i : 0 .. N - 1) { older(i) } }
      what = OFF; ticks = 0;
      judge()
    } }
  od
}

init {
  atomic {
    byte r = 0;
    d_step { do :: r < N - TWIN -> join(r); r++ :: else -> break od; r = 0; judge() }
    do :: r < N -> run Replica(r); r++ :: else -> break od; r = 0;
    run World()
  }
}

#if ALL_END == 1
ltl all_end { []<> (owed == 0) }
#endif
