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
#ifndef PAUSES
#define PAUSES 0                /* a replica stops, for any time: frozen, blocked, or cut off */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef STOPS
#define STOPS 0                 /* a replica stops in good order */
#endif
#ifndef SLOW
#define SLOW 0                  /* a request or an answer is held up for any time, or lost */
#endif
#ifndef RESTARTS
#define RESTARTS 0              /* the server restarts and keeps its data */
#endif
#ifndef WIPES
#define WIPES 0                 /* the server loses all data */
#endif
#ifndef LEAPS
#define LEAPS 0                 /* the server's clock leaps forward, by a tick or beyond every lease */
#endif
#ifndef TWIN
#define TWIN 0                  /* 1: the last replica is a later start of the first one, by the same name */
#endif
#ifndef BUG
#define BUG 0
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

#define AT(r, t) ((r) * N + (t))
#define IS_MESSAGE(t) ((t) < MESSAGES)
#define IS_HEAD(t) (length > 0 && queue[0] == (t))
#define IS_GRANTED(t) (fence[t] != 0 && confirmed[t])
#define ENDING(r, t) (asked[r] == RELEASE && askedFor[r] == (t))
#define HOLDS(r, t) (phase[r] == IN && trust[r] < TRUST && place[AT(r, t)] > WAITING && !ENDING(r, t))
#define ACTS(r) (phase[r] == IN && !paused[r])
#define HAS_ELDER(r) (TWIN == 1 && (r) == N - 1)

/* ── A replica forgets ── */

inline clearFlight(me) {
  flight[me] = OFF; said[me] = OFF; sent[me] = 0; viewEra[me] = 0; viewWatched[me] = 0; saidEra[me] = 0;
  k = 0; do :: k < N -> view[AT(me, k)] = NONE; answer[AT(me, k)] = 0; k++ :: else -> break od
}

inline drop(me, into) {
  phase[me] = into; trust[me] = TRUST; flight[me] = OFF; asked[me] = OFF; askedFor[me] = 0; reply[me] = 0; replyEra[me] = 0;
  bonus[me] = NOBODY; bonusFence[me] = 0; pushed[me] = NOBODY; pushedFence[me] = 0; pushedEra[me] = 0; sent[me] = 0;
  clearFlight(me);
  k = 0; do :: k < N -> place[AT(me, k)] = NONE; k++ :: else -> break od;
  if :: into == OFF || into == LEAVING -> known[me] = 0; watched[me] = 0; beaten[me] = false; paused[me] = false :: else fi
}

/* ── The steps of the store ── */

/* R9: a server that may have lost writes begins an era, in which no old grant counts and nobody is a witness yet. */
inline begin() {
  if
  :: changed -> changed = false; era++; quarantine = (BUG != 3); k = 0;
     do :: k < N -> confirmed[k] = (BUG == 3 && confirmed[k]); if :: live[k] -> unbroken[k] = 0 :: else fi; k++ :: else -> break od
  :: else
  fi
}

/* R8: a fence is greater than every earlier one, also when the counter was lost, for the clock went on. */
inline hold(t) {
  last++; fence[t] = last; confirmed[t] = true;
  assert(last > topFence);                            /* fences rise */
  topFence = last
}

inline grant(t, me) {
  assert(live[owner[t]]);                             /* no grant to the dead */
  hold(t);
  if
  :: owner[t] == me -> bonus[me] = t; bonusFence[me] = fence[t]
  :: else -> pushed[owner[t]] = t; pushedFence[owner[t]] = fence[t]; pushedEra[owner[t]] = era
  fi
}

inline takeOut(t) {
  j = 0; do :: queue[j] == t -> break :: else -> j++ od;
  length--;
  do :: j < length -> queue[j] = queue[j + 1]; j++ :: else -> break od;
  queue[length] = 0; owner[t] = NOBODY; fence[t] = 0; confirmed[t] = false; offered[t] = false; batched[t] = false; unheard[t] = false
}

/* Who takes over a message: the caller, else the live epoch with the fewest tickets, the oldest of those. */
inline chooseAdopter(me) {
  a = me; w = NOBODY; j = 0;
  do
  :: me == NOBODY && j < N ->
     if
     :: live[j] && proven[j] && !replaced[j] ->
        n = 0; k = 0; do :: k < N -> n = n + (owner[k] == j -> 1 : 0); k++ :: else -> break od;
        if :: n < w || (n == w && epoch[j] < epoch[a]) -> w = n; a = j :: else fi
     :: else
     fi; j++
  :: else -> break
  od
}

/* Brings the head to a live owner and grants it: skips the dead, hands their messages on. */
inline settle(me) {
  do
  :: length == 0 -> break
  :: else -> h = queue[0];
     if
     :: owner[h] != NOBODY && (IS_GRANTED(h) || (replaced[owner[h]] && fence[h] != 0)) && !(BUG == 9 && replaced[owner[h]]) -> break
     :: owner[h] != NOBODY && !replaced[owner[h]] && !IS_GRANTED(h) -> if :: quarantine :: else -> grant(h, me) fi; break
     :: else ->
        if
        :: !IS_MESSAGE(h) -> takeOut(h)
        :: else ->
           owner[h] = NOBODY; fence[h] = 0; confirmed[h] = false; offered[h] = false; batched[h] = false; unheard[h] = false;
           chooseAdopter(me);
           if
           :: quarantine || a == NOBODY -> break      /* an orphan, until a heartbeat finds it */
           :: else -> owner[h] = a; offered[h] = true; hold(h); if :: a == me -> bonus[me] = h; bonusFence[me] = fence[h] :: else fi
           fi
        fi
     fi
  od
}

/* R1: to be no longer in the table is death. All that the dead had counts no more. */
inline bury(x) {
  live[x] = false; proven[x] = false; replaced[x] = false; beatAge[x] = 0; unbroken[x] = 0;
  k = 0; do :: k < N -> if :: owner[k] == x && BUG != 8 -> owner[k] = NOBODY; unheard[k] = false :: else fi; k++ :: else -> break od
}

/* R2: who has an unbroken row of heartbeats for a whole lease, the last one not long ago, may bury whose lease is over. */
#define IS_WITNESS(me) ((beatAge[me] <= GAP && unbroken[me] >= LEASE) || BUG == 1)
#define IS_OVER(x, me) (live[x] && (x) != (me) && beatAge[x] > LEASE && IS_WITNESS(me) && BUG != 11)
inline declareDead(x) {
  assert(!(phase[x] == IN && trust[x] < TRUST));      /* trust ends before death */
  bury(x)
}

/* R4: the first that is heard of a later start after its join takes the name. The elder keeps what it holds, till its end. */
inline prove(me) {
  if
  :: !proven[me] -> proven[me] = true;
     if
     :: HAS_ELDER(me) && live[0] && !replaced[0] -> replaced[0] = true
     :: else
     fi
  :: else
  fi
}

inline join(me) {
  begin();
  if
  :: TWIN == 1 && me == 0 && live[N - 1] && proven[N - 1] -> drop(me, OFF)
  :: else ->
     live[me] = true; proven[me] = false; replaced[me] = false; beatAge[me] = 0; unbroken[me] = 0; epochs++; epoch[me] = epochs;
     phase[me] = IN; trust[me] = 0; beaten[me] = true;
     if :: known[me] != era -> known[me] = era; watched[me] = 0 :: else fi
  fi
}

/* R10, R11: what the caller lists is confirmed, granted, or said to be lost; R12: what it does not list is given back. */
inline compareView(me) {
  i = 0;
  do
  :: i < N ->
     if
     :: owner[i] == me && LISTS(me, i) -> offered[i] = false; confirmed[i] = (IS_HEAD(i) && view[AT(me, i)] == fence[i] -> true : confirmed[i])
     :: owner[i] == me && view[AT(me, i)] == NONE && !offered[i] -> if :: IS_MESSAGE(i) -> owner[i] = NOBODY :: else -> takeOut(i) fi
     :: else
     fi; i++
  :: else -> break
  od
}

inline answerView(me) {
  i = 0;
  do
  :: i < N ->
     if
     :: !LISTS(me, i) && owner[i] == me && offered[i] && (!batched[i] || view[AT(me, i)] == NONE || BUG == 15) && !quarantine ->
        if :: !IS_GRANTED(i) -> hold(i) :: else fi; answer[AT(me, i)] = fence[i]
     :: view[AT(me, i)] == WAITING && owner[i] == me && BUG != 10 -> answer[AT(me, i)] = (IS_HEAD(i) && IS_GRANTED(i) -> fence[i] : 0)
     :: LISTS(me, i) && BUG != 12 && (owner[i] != me || (view[AT(me, i)] != WAITING && view[AT(me, i)] != fence[i])) -> answer[AT(me, i)] = GONE
     :: else
     fi; i++
  :: else -> break
  od
}

inline beatArrives(me) {
  begin(); flight[me] = ANSWER; saidEra[me] = era;
  if
  :: !live[me] -> said[me] = (BUG == 12 -> ALIVE : DEAD)             /* R3: refused as a whole */
  :: replaced[me] -> said[me] = REPLACED
  :: else -> said[me] = ALIVE;
     prove(me);
     if :: beatAge[me] > GAP -> unbroken[me] = 0 :: else fi;
     beatAge[me] = 0;
     if :: viewEra[me] == era && (viewWatched[me] >= QUARANTINE || BUG == 4) -> quarantine = false :: else fi;
     o = 0; do :: o < N -> if :: IS_OVER(o, me) -> declareDead(o) :: else fi; o++ :: else -> break od;
#if BUG == 7
     if :: length > 0 && IS_MESSAGE(queue[0]) && owner[queue[0]] != me && owner[queue[0]] != NOBODY && beatAge[owner[queue[0]]] > 0 ->
           owner[queue[0]] = NOBODY :: else fi;
#endif
     settle(me);
     compareView(me);
     settle(me);
     answerView(me);
     bonus[me] = NOBODY; bonusFence[me] = 0
  fi
}

/* Takes a place at the end of the queue. At an idle key it is granted at once; else the dead at its head are cleared away. */
inline enqueue(t, me) {
  k = 0; do :: k < length -> assert(queue[k] != t); k++ :: else -> break od;
  assert(!ended[t]);                                  /* one reservation, one place */
  queue[length] = t; length++; owner[t] = me; batched[t] = true; unheard[t] = true;
  h = queue[0];
  if
  :: length == 1 -> if :: quarantine :: else -> hold(t) fi
  :: length > 1 && owner[h] != NOBODY && IS_OVER(owner[h], me) -> o = owner[h]; declareDead(o)
  :: else
  fi
}

/* A release counts only from the owner of the ticket, and grants the next one in the same step. */
inline release(t, me) {
  if
  :: owner[t] == me ->
     ended[t] = true;
     if :: BUG == 5 && queue[0] != t -> o = queue[0]; takeOut(o) :: else fi;
     takeOut(t)
  :: else
  fi
}

inline operationArrives(me, what, t) {
  begin(); asked[me] = what; askedFor[me] = t; replyEra[me] = era; reply[me] = NONE;
  if
  :: !live[me] || replaced[me]
  :: else -> prove(me);
     if :: what == RESERVE -> enqueue(t, me) :: else -> release(t, me) fi;
     settle(me);
     if :: what == RESERVE -> reply[me] = (IS_HEAD(t) && IS_GRANTED(t) -> fence[t] : WAITING) :: else fi;
     if :: bonus[me] == t -> bonus[me] = NOBODY; bonusFence[me] = 0
        :: bonus[me] != t && bonus[me] != NOBODY && offered[bonus[me]] -> batched[bonus[me]] = true; unheard[bonus[me]] = true
        :: else
     fi
  fi
}

inline leave(me) {
  begin();
  if
  :: live[me] ->
     k = 0; do :: k < N -> if :: owner[k] == me && IS_MESSAGE(k) -> fence[k] = 0 :: else fi; k++ :: else -> break od;
     bury(me); settle(NOBODY)
  :: else
  fi;
  drop(me, OFF)
}

/* ── What a replica does with what it hears ── */

/* R6: trust that ran out is a loss. What was granted under it has to be granted anew. */
inline lapse(me) {
  k = 0; do :: k < N -> if :: place[AT(me, k)] > WAITING && !ENDING(me, k) -> place[AT(me, k)] = WAITING :: else fi; k++ :: else -> break od
}

/* A grant of another era than the last heartbeat's, or that comes without trust, is not believed. */
inline believe(me, t, f, ofEra) {
  if
  :: ofEra == known[me] && trust[me] < TRUST && !ENDING(me, t) && place[AT(me, t)] != NONE && f > place[AT(me, t)] -> place[AT(me, t)] = f
  :: else
  fi
}

inline forgetPush(me) { pushed[me] = NOBODY; pushedFence[me] = 0; pushedEra[me] = 0 }

inline send(me) {
  beaten[me] = true; flight[me] = REQUEST; sent[me] = 0; viewEra[me] = known[me]; viewWatched[me] = watched[me];
  k = 0;
  do
  :: k < N -> view[AT(me, k)] = (place[AT(me, k)] == NONE && !(owner[k] == me && !unheard[k]) -> NEWER : place[AT(me, k)]); k++
  :: else -> break
  od
}

inline hearBeat(me) {
  if
  :: said[me] == DEAD -> drop(me, OUT)
  :: said[me] == REPLACED -> drop(me, LEAVING)
  :: else ->
     i = 0;
     do
     :: i < N ->
        if :: saidEra[me] != known[me] && place[AT(me, i)] > WAITING && place[AT(me, i)] != view[AT(me, i)] && !ENDING(me, i) -> place[AT(me, i)] = WAITING :: else fi;
        if :: answer[AT(me, i)] == GONE && place[AT(me, i)] == view[AT(me, i)] && !ENDING(me, i) -> place[AT(me, i)] = NONE :: else fi;
        i++
     :: else -> break
     od;
     if :: saidEra[me] != known[me] -> known[me] = saidEra[me]; watched[me] = 0 :: else fi;
     trust[me] = (BUG == 13 -> 0 : sent[me]);         /* R5: from before it was sent */
     if :: trust[me] >= TRUST -> lapse(me) :: else fi;
     i = 0;
     do
     :: i < N && answer[AT(me, i)] > WAITING && answer[AT(me, i)] != GONE ->
        if :: !LISTS(me, i) && place[AT(me, i)] == NONE -> place[AT(me, i)] = WAITING :: else fi;   /* taken over */
        believe(me, i, answer[AT(me, i)], saidEra[me]); i++
     :: i < N && !(answer[AT(me, i)] > WAITING && answer[AT(me, i)] != GONE) -> i++
     :: else -> break
     od;
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
     if :: reply[me] > WAITING -> believe(me, o, reply[me], replyEra[me]) :: else fi;
     if :: h != NOBODY && offered[h] && owner[h] == me && place[AT(me, h)] == NONE -> place[AT(me, h)] = WAITING :: else fi;
     if :: h != NOBODY -> believe(me, h, bonusFence[me], replyEra[me]) :: else fi;
     k = 0; do :: k < N -> if :: owner[k] == me -> unheard[k] = false :: else fi; k++ :: else -> break od;
     askedFor[me] = 0; reply[me] = 0; replyEra[me] = 0; bonus[me] = NOBODY; bonusFence[me] = 0
  fi
}

/* ── Judging, and telling what the replay on the real store is held to ── */

inline judge() {
  owed = length; believers = 0; i = 0;
  printf("=");
  do
  :: i < N -> k = 0; h = NOBODY;
     do :: k < N -> if :: place[AT(i, k)] != NONE -> owed++ :: else fi; if :: HOLDS(i, k) -> h = k; believers++ :: else fi; k++ :: else -> break od;
     printf(" %d:%d", live[i], h); holding[i] = h; i++
  :: else -> break
  od;
  printf(" |"); i = 0;
  do :: i < length -> printf(" %d:%d:%d", queue[i], owner[queue[i]], IS_GRANTED(queue[i])); i++ :: else -> break od;
  printf(" | %d\n", quarantine);
  i = 0; k = 0; h = 0;
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
      if :: what == BEAT || what == SEND -> send(r) :: else fi;
      if :: what == BEAT || what == ARRIVE -> beatArrives(r) :: else fi;
      if :: what == BEAT || what == HEAR -> hearBeat(r) :: else fi;
      if :: what == GIVE_UP -> clearFlight(r) :: else fi;
      if :: what == OPERATE -> operationArrives(r, op, t) :: else fi;
      if :: what == ASK_AGAIN -> begin() :: else fi;
      if :: (what == OPERATE && prompt) || what == ASK_AGAIN -> hearOperation(r) :: else fi;
#if BUG == 6
      if :: what == DOUBLED -> enqueue(r, r) :: else fi;
#endif
      if :: what == PUSH -> h = pushed[r]; believe(r, h, pushedFence[r], pushedEra[r]) :: else fi;
      if :: what == PUSH || what == PUSH_LOST -> forgetPush(r) :: else fi;
      if :: what == JOIN -> join(r) :: else fi;
      if :: what == LEAVE -> leave(r) :: else fi;
      if :: what == CRASH -> drop(r, OFF) :: else fi;
      if :: what == PAUSE -> paused[r] = true :: what == RESUME -> paused[r] = false :: else fi;
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
  if :: live[x] && beatAge[x] <= LEASE -> beatAge[x]++ :: else fi;
  if :: live[x] && unbroken[x] < LEASE -> unbroken[x]++ :: else fi;
  if :: beatAge[x] > GAP -> unbroken[x] = 0 :: else fi         /* its next heartbeat begins a new row in any case */
}

inline tick() {
  i = 0;
  do
  :: i < N -> beaten[i] = false;
     if :: phase[i] == IN && trust[i] < TRUST -> trust[i]++; if :: trust[i] >= TRUST -> lapse(i) :: else fi :: else fi;
     if :: (phase[i] == IN || phase[i] == OUT) && watched[i] < QUARANTINE -> watched[i]++ :: else fi;
     if :: flight[i] != OFF && sent[i] < TRUST -> sent[i]++ :: else fi;
     i++
  :: else -> break
  od
}

inline wipe() {
  last = (BUG == 14 -> 1 : last); length = 0; i = 0;
  do
  :: i < N -> live[i] = false; proven[i] = false; replaced[i] = false; beatAge[i] = 0; unbroken[i] = 0; queue[i] = 0; owner[i] = NOBODY;
     fence[i] = 0; confirmed[i] = false; offered[i] = false; batched[i] = false; unheard[i] = false; i++
  :: else -> break
  od
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
      if :: what == TICK -> tick() :: what == WIPE -> wipe() :: else fi;
      if :: what == RESTART || what == WIPE -> changed = true :: else fi;
      o = 0; do :: o < ticks -> i = 0; do :: i < N -> older(i); i++ :: else -> break od; o++ :: else -> break od;
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
