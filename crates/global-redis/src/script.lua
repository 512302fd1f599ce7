-- Decides requests in Redis for all gateways: whole commands in order. Each command charges all of
-- its rules or none.
--
--   KEYS   one for each rule of each command, in order; keys may repeat. If a grant may pay or has
--          paid, the grant's key follows.
--   ARGV   first the number of the call, which begins the reply, so that the caller recognises its
--          reply; then commands: whole numbers below 2^53, separated by spaces. A call without
--          commands is a probe: whether the key can be written.
--
--   1 G (N (KIND FLAGS COST LEASE a b c d e f PENALTY KEPT REST){N}){G}    decide on G groups of rules
--   2 N (KIND a b c d e f COST AT BOOKED STAMP STAMP){N}    refund charges
--   3 N (KIND a b c d e f GENERATION USED LEFT){N}          return leases
--   4 N (KIND a b c d e f){N}                               report the permits of a worker
--   5 N (KIND a b c d e f COST AT BOOKED STAMP STAMP FINAL){N}    correct charges to a final cost
--   6 CHANGE AMOUNT FOR 2 (1 (as in 1)){2}                  answer an operator about one rule
--
-- Only with the flag PENALTY, PENALTY is AFTER UNIT FOR: AFTER refusals within UNIT begin a penalty
-- that lasts FOR. If AFTER is 0, a refusal of this request does not count. Only with the flag
-- HEADROOM, the request has to leave KEPT units. REMAINING and MORE_IN are then without them. Only
-- with the flag RESTS there is REST.
--
-- The reply to `decide` has 13 numbers for each rule: OUTCOME WAIT REMAINING MORE_IN FULL_IN, then
-- the charge COST AT BOOKED STAMP STAMP, then the lease LEASED GENERATION LASTS. An admitted
-- request waits for WAIT. The reply to 6 is the same, then how long a penalty lasts, and what is
-- left of a grant and for how long. Before that, CHANGE is made. Other commands reply 0.
--
-- crates/limiter/src/algorithm/ documents how each kind counts, and its parameters.rs what a to f
-- are. Here are the same formulas in microseconds. A value is decimal numbers, first its kind. The
-- value of a rule with a penalty may begin with 9 · when the counted unit ends · the refusals in it
-- · when the penalty ends · how long it lasts. Any other value is foreign and is overwritten.
--
-- Gateways spend a lease of up to LEASE by themselves until it LASTS. A lease is at most an eighth
-- of what is left and what arrives within a second, so that no gateway holds the end of a quota
-- while others refuse. A window or slice counts a lease as used, and subtracts what is LEFT on
-- return. A bucket keeps leases apart: it is full when its tokens and its leases make the burst. It
-- leases by the second; two seconds after a second began, leases of that second that were not
-- returned count as spent. The clock may step back, so a GENERATION is the number of the second,
-- window or slice and four bits of how often a cell was cut.
-- Constants have names in capitals, and the build writes their numbers into the script.

local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local LAG, SECOND, HOUR, DAY = 1000000, 1000000, 3600000000, 86400000000
-- No quota of a configuration has a longer unit, or a bucket that takes longer to fill.
local WEEK, CENTURY = 604800000000, 3153600000000000

-- The commands, and an operator's changes.
local DECIDE, REFUND, RETURN, REPORT, SETTLE, INSPECT = 1, 2, 3, 4, 5, 6
local RESET, END_PENALTY, GRANT = 1, 2, 3
-- The flags of a rule: it refuses; a cost of 0 is refused without one unit left; it has a penalty;
-- the request has to leave units; a grant may pay; what is left is charged if it is less than the
-- cost, but at least REST.
local ENFORCED, PEEKS, PENALTY, HEADROOM, GRANTS, RESTS = 1, 2, 4, 8, 16, 32
-- The outcomes. A penalty adds PENALIZED to a refusal.
local ADMITTED, REFUSED, NEVER, PENALIZED = 0, 1, 2, 2
-- The 13 numbers of the reply about a rule.
local OUTCOME, WAIT, REMAINING, MORE_IN, FULL_IN, COST, BOOKED, STAMP = 1, 2, 3, 4, 5, 6, 8, 9
local LEASED, GENERATION, LASTS = 11, 12, 13
-- The kinds of rules; any other one refuses all requests. Values with a penalty begin with 9.
local TOKEN_BUCKET, WINDOW, SLIDING_WINDOW, SLIDING_LOG, LEAKY_BUCKET = 1, 2, 3, 4, 5
local PERMITS, WARM_UP, WITH_PENALTY, GATEWAYS, CALENDAR = 7, 8, 9, 10, 11
-- The instant at which a charge that a grant has paid is booked.
local GRANTED = 9007199254740991
-- Numbers of values are far enough below 2^53 that a count of cuts stays below, too.
local MOST_NUMBER, MOST_NUMBERS = 9e15, 4000
local max, min, ceil, floor, huge = math.max, math.min, math.ceil, math.floor, math.huge

-- n · m / d, rounded down, and the remainder. Doubles are exact to 2^53. A larger product is
-- divided digit by digit, of 13 bits; d + m is below 2^40.
local function scale(n, m, d)
  local all = n * m
  if all < 2 ^ 53 then
    local rest = all % d
    return (all - rest) / d, rest
  end
  local digit = n % 8192
  local whole, rest = scale((n - digit) / 8192, m, d)
  all = rest * 8192 + digit * m
  rest = all % d
  return whole * 8192 + (all - rest) / d, rest
end

-- Instants and spans are microseconds and a part in 1/per. Carries the sum or difference of two.
local function carried(us, part, per)
  local rest = part % per
  return us + (part - rest) / per, rest
end

local function ceiled(us, part) return part > 0 and us + 1 or us end
local function generation(number, cuts) return number * 16 + cuts % 16 end

-- The number of tokens that arrive in a span, at us / per each.
local function tokens(span, part, us, per)
  local whole, rest = scale(span, per, us)
  rest = rest + part
  return whole + (rest - rest % us) / us
end

-- How much further from full than an empty bucket a bucket may be: the tolerated difference of
-- clocks, or less if a token takes less than the unit.
local function slack(us, per, unit)
  local token, part = scale(1, us, per)
  token, part = carried(unit - token, -part, per)
  if token >= LAG then return LAG, 0 end
  return token, part
end

-- The outcome by a limit of which so much is used, and the charge.
local function judge(cost, used, limit)
  if cost > limit then return NEVER, 0 end
  if cost > 0 and used + cost > limit then return REFUSED, 0 end
  return ADMITTED, cost
end

-- A kind is a function of a to f. It has a value in named locals, and returns a table of functions:
--
--   decode(v)                    reads the numbers of a value, at least `size` of them
--   encode()                     the numbers of the value
--   prepare()                    brings the value to this clock and quota
--   step(cost)                   charges a request, and returns the verdict
--   charge(cost)                 takes as much of a cost as settling may
--   refund(cost, at, booked, first, second)    undoes a charge, or a part of it
--   kept(cost)                   how long the units of a charge that stay charged take
--   leasable()                   the most that can be leased, and what arrives within a second
--   lease(units)                 returns the generation, and how long the lease lasts
--   return_lease(generation, used, left)
--   life()                       how long the value matters

-- TB. A value: when the bucket is full except for its leases, us and part · refunds · cuts · latest
-- instant · second · leased in that second · leased in the second before · the a to f of the last
-- charge, which are the carried quota · changes of rate. Tokens come at the rate of the carried
-- quota, until another quota charges the bucket or is faster. See token_bucket.rs.
local function token_bucket(...)
  local full, part, refunds, cuts, latest, second, leased, leased_before, carries, changes

  local function quota(us, per, burst, max_wait, empty, unit)
    local fill, fill_part = scale(burst, us, per)
    return {
      us = us, per = per, burst = burst, max_wait = max_wait, empty = empty, unit = unit,
      fill = fill, fill_part = fill_part,
      capacity = max_wait > 0 and tokens(fill + max_wait, fill_part, us, per) or burst,
      -- Settling may take so many units more than there are.
      borrow = (empty - empty % 2) / 2, starts_empty = empty % 2 > 0,
    }
  end
  local own = quota(...)

  local function carried_quota(us, per, burst, max_wait, empty, unit)
    if us == own.us and per == own.per and burst == own.burst and max_wait == own.max_wait
      and empty == own.empty and unit == own.unit then return own end
    local is_quota = us > 0 and us <= WEEK and per > 0 and per < 2 ^ 32 and burst > 0
      and burst <= 1e9 and max_wait <= HOUR and empty < 2e9 + 2 and unit <= WEEK
      and (burst + empty / 2) * us / per <= CENTURY
    return is_quota and quota(us, per, burst, max_wait, empty, unit) or nil
  end

  local function decode(v)
    full, part, refunds, cuts, latest, second, leased, leased_before = unpack(v, 2, 9)
    carries, changes = carried_quota(unpack(v, 10, 15)), v[16]
  end

  local function encode()
    local q = carries or {us = 0, per = 0, burst = 0, max_wait = 0, empty = 0, unit = 0}
    return {
      TOKEN_BUCKET, full, part, refunds, cuts, latest, second, leased, leased_before,
      q.us, q.per, q.burst, q.max_wait, q.empty, q.unit, changes,
    }
  end

  local function spend(q, cost, at)
    if full < at then full, part = at, 0 end
    local span, rest = scale(cost, q.us, q.per)
    full, part = carried(full + span, part + rest, q.per)
  end

  local function spend_now(q, cost)
    spend(q, cost, now)
    latest = max(now, latest)
  end

  -- A charge from before the rate changed has another stamp. Leases are units, whatever the rate.
  local function stamp() return cuts % 65536 + changes % 65536 * 65536 end

  -- How long the tokens that come in a span, and so many more or fewer, take at another rate.
  -- Rounded by `ceiled` or `floor`, and at least zero.
  local function converted(span, rest, more, us, per, to_us, to_per, round)
    local whole, ticks = scale(span, per, us)
    ticks = ticks + rest
    whole, ticks = whole + (ticks - ticks % us) / us + more, ticks % us
    if whole < 0 then return 0, 0 end
    local time, time_part = scale(whole, to_us, to_per)
    return carried(time, time_part + round(scale(ticks, to_us, us)), to_per)
  end

  -- Takes over what the bucket lacks of the carried quota, at another rate and burst.
  local function take_over(us, per, burst)
    local from, span, rest = carries, max(0, full - now), full >= now and part or 0
    -- If the bucket starts empty, the tokens that it holds are those that the actor saved.
    local more = own.starts_empty and burst - from.burst or 0
    span, rest = converted(span, rest, more, from.us, from.per, us, per, ceiled)
    full, part = carried(now + span, rest, per)
    if full < 1 then full, part = 1, 0 end
    if from.us ~= us or from.per ~= per or more ~= 0 then changes = changes + 1 end
    -- A bucket that cannot owe lacks already what comes until the latest instant.
    if own.borrow > 0 and latest - now > LAG then cuts, latest = cuts + 1, now end
    -- A bucket that waits leases nothing, and none leases more than it holds.
    local held = leased + leased_before
    if held > 0 and (own.max_wait > 0 or held >= burst) then
      spend({us = us, per = per}, held, full)
      cuts, leased, leased_before = cuts + 1, 0, 0
    end
  end

  -- Takes units as a bucket of this quota. If that charges nothing, nothing changes.
  local function as_own(take, cost)
    local was = carries and carries ~= own and encode()
    if was then take_over(own.us, own.per, own.burst) end
    local charged, one = take(own, cost)
    if charged > 0 then carries = own elseif was then decode(was) end
    return one, was and charged == 0
  end

  -- Steps a bucket that lacks what it lacks by this quota. Returns the charge and the verdict.
  local function step(q, cost)
    local us, per, held = q.us, q.per, leased + leased_before
    -- The furthest that full may be away.
    local far, far_part = scale(held, us, per)
    far, far_part = carried(q.fill + q.max_wait - far, q.fill_part - far_part, per)
    -- How far full is beyond that after a cost of `more`.
    local function beyond(more)
      local span, rest = scale(more, us, per)
      -- Subtract first: an instant and two spans of 100 years add up to more than 2^53.
      if full >= now then span, rest = span + (full - now), rest + part end
      return carried(span - far, rest - far_part, per)
    end
    local booked, span, rest = max(full, now), beyond(cost)
    local outcome, charged, wait = judge(cost, ceiled(span, rest) > 0 and huge or 0, q.capacity)
    wait = outcome == REFUSED and ceiled(span, rest) or 0
    if charged > 0 then
      wait = max(0, ceiled(span + q.max_wait, rest))
      spend_now(q, charged)
    end
    span, rest = beyond(0)
    span, rest = carried(-span, -rest, per)
    local remaining = span < 0 and 0 or tokens(span, rest, us, per)
    local more = max(0, ceiled(beyond(min(remaining + 1, q.capacity - held))))
    local full_in = max(0, ceiled(full - now, part))
    return charged, {
      outcome, wait, remaining, more, full_in, charged, now, booked, refunds, stamp(), 0, 0, 0,
    }
  end

  local function charge(q, cost)
    local far, far_part = scale(q.burst + q.borrow - leased - leased_before, q.us, q.per)
    if full >= now then far, far_part = carried(far - full + now, far_part - part, q.per) end
    cost = far < 0 and 0 or min(cost, tokens(far, far_part, q.us, q.per))
    if cost > 0 then spend_now(q, cost) end
    return cost
  end

  -- Brings the bucket of a quota to this clock.
  local function advance(q)
    local us, per, held = q.us, q.per, leased + leased_before
    if held > 0 then
      local stepped_back = max(latest, second * SECOND) - now > LAG
      -- Spends leases that are over. Returns those that are not.
      local function last(units, over)
        over = stepped_back and now or over
        if over > now or units == 0 then return units end
        spend(q, units, over)
        return 0
      end
      leased_before = last(leased_before, (second + 1) * SECOND)
      leased = last(leased, (second + 2) * SECOND)
      cuts = stepped_back and cuts + 1 or cuts
    end
    -- If the clock stepped back, a bucket that may owe lacks what it lacked at its last charge.
    if q.borrow > 0 and latest - now > LAG then
      full, cuts, latest = max(full - latest + now, 1), cuts + 1, now
    end
    -- The furthest that full may be away.
    local most, most_part = slack(us, per, q.unit)
    local debt, debt_part = scale(q.borrow, us, per)
    most, most_part = most + debt + q.fill + q.max_wait, most_part + debt_part + q.fill_part
    most, most_part = carried(most, most_part, per)
    local span, rest = scale(leased + leased_before, us, per)
    if ceiled(carried(full - now + span - most, part + rest - most_part, per)) > 0 then
      full, part = now + most, most_part
      cuts, latest, leased, leased_before = cuts + 1, now, 0, 0
    elseif q.starts_empty and full + part == 0 then
      spend(q, q.burst, now)
    end
  end

  return {
    size = 16, decode = decode, encode = encode,
    prepare = function()
      local q = carries or own
      part, leased = min(part, q.per - 1), q.max_wait > 0 and 0 or min(leased, q.burst - 1)
      leased_before = q.max_wait > 0 and 0 or min(leased_before, q.burst - 1 - leased)
      advance(q)
      -- Carries the faster rate; and a higher burst if the bucket saves tokens up to it.
      local is_faster = q ~= own and scale(own.us, q.per, own.per) < q.us
      if q ~= own and (is_faster or own.starts_empty and own.burst > q.burst) then
        local by, burst = is_faster and own or q, max(own.burst, q.burst)
        take_over(by.us, by.per, burst)
        local max_wait, empty = max(own.max_wait, q.max_wait), max(own.empty, q.empty)
        carries = carried_quota(by.us, by.per, burst, max_wait, empty, by.unit)
      elseif full + part > 0 then
        carries = q
      end
    end,
    step = function(cost)
      local one, is_slow = as_own(step, cost)
      if is_slow then
        -- Nothing is charged, so the missing tokens still come at the carried rate.
        local was, us, per = encode(), carries.us, carries.per
        local wait, rest = converted(own.max_wait, 0, 0, own.us, own.per, us, per, floor)
        local by = quota(us, per, own.burst, wait, own.empty, own.unit)
        by.fill_part, by.capacity = by.fill_part + rest, own.capacity
        take_over(us, per, own.burst)
        local _, looked = step(by, cost)
        decode(was)
        if one[OUTCOME] == REFUSED and looked[OUTCOME] == REFUSED then one[WAIT] = looked[WAIT] end
        one[MORE_IN], one[FULL_IN], one[BOOKED] = looked[MORE_IN], looked[FULL_IN], looked[BOOKED]
      end
      return one
    end,
    charge = function(cost) as_own(charge, cost) end,
    kept = function(cost)
      local q = carries or own
      return (scale(min(cost, q.capacity + q.borrow), q.us, q.per))
    end,
    refund = function(cost, at, booked, of_refunds, of)
      local q = carries or own
      if of ~= stamp() then return end
      local span, rest = scale(min(cost, q.capacity + q.borrow), q.us, q.per)
      local is_last = carried(full - span, part - rest, q.per) == booked
      local waits = ceiled(carried(full - now - q.fill, part - q.fill_part, q.per)) > 0
      if q.max_wait > 0 and waits and not is_last then return end
      local no_refunds = of_refunds == refunds
      -- What the bucket has gained meanwhile only because it was charged.
      local gained = max(0, max(now, latest) - (no_refunds and booked or at))
      if span >= gained then full, part = carried(full - span + gained, part - rest, q.per) end
      if not (no_refunds and is_last and gained == 0) then refunds = refunds + 1 end
    end,
    leasable = function()
      if carries and carries ~= own or own.max_wait > 0 then return 0, 0 end
      return own.burst - 1 - leased - leased_before, tokens(SECOND, 0, own.us, own.per)
    end,
    lease = function(units)
      local this = (now - now % SECOND) / SECOND
      if latest - now > LAG then
        cuts, latest, second = cuts + 1, now, this
      elseif leased + leased_before == 0 then
        second = this
      elseif second < this then
        second, leased, leased_before = this, 0, leased
      end
      latest, leased, carries = max(now, latest), leased + units, own
      return generation(second, cuts), (second + 2) * SECOND - 750000 - now
    end,
    return_lease = function(of, used, left)
      local q = carries or own
      if of == generation(second, cuts) then
        used = min(used, leased)
        leased = max(0, leased - used - left)
        spend_now(q, used)
      elseif of == generation(second - 1, cuts) then
        used = min(used, leased_before)
        leased_before = max(0, leased_before - used - left)
        spend_now(q, used)
      end
    end,
    life = function()
      local q = carries or own
      local span = scale(leased + leased_before, q.us, q.per)
      local from = span > 0 and max(full, (second + 2) * SECOND) or full
      return max(from - now + span, q.starts_empty and DAY or 0)
    end,
  }
end

-- TB with warm_up. A value: when the bucket is full, us and part · refunds · cuts · latest instant
-- · how cold the rule was at the first instant, plus the time to fill, us and part.
local function warming(us, per, burst, warm_up, starts_empty, unit)
  local full, part, refunds, cuts, latest, sum, sum_part
  local half, fill, fill_part = warm_up / 2, scale(burst, us, per)

  -- The difference of two, or zero.
  local function less(a, a_part, b, b_part)
    a, a_part = carried(a - b, a_part - b_part, per)
    if a < 0 then return 0, 0 end
    return a, a_part
  end

  local function coldest(cold, rest)
    if cold >= warm_up then return warm_up, 0 end
    return cold, rest
  end

  -- P of the formula, rounded down to 1/per us. Squares of up to 2^131 are divided as they arise.
  local function potential(cold, cold_part)
    local above = cold - half
    if above < 0 then return 0, 0 end
    local whole, rest = scale(2 * above, above, warm_up)
    local ticks, a = scale(rest, per, warm_up)
    local more, b = scale(4 * above, cold_part, warm_up)
    rest = a + b + scale(2 * cold_part, cold_part, per)
    return carried(whole, ticks + more + (rest - rest % warm_up) / warm_up, per)
  end

  -- How much of the time to fill so many units take.
  local function price(cost, cold, cold_part)
    local span, rest = scale(cost, us, per)
    local from, from_part = potential(cold, cold_part)
    local to, to_part = potential(less(cold, cold_part, span, rest))
    return carried(span + from - to, rest + from_part - to_part, per)
  end

  return {
    size = 8,
    decode = function(v) full, part, refunds, cuts, latest, sum, sum_part = unpack(v, 2, 8) end,
    encode = function() return {WARM_UP, full, part, refunds, cuts, latest, sum, sum_part} end,
    prepare = function()
      local most, rest = slack(us, per, unit)
      most, rest = carried(now + fill + most, fill_part + rest, per)
      part = min(part, per - 1)
      if ceiled(carried(full - most, part - rest, per)) > 0 then
        full, part, cuts, latest = most, rest, cuts + 1, now
      elseif starts_empty > 0 and full + part == 0 then
        full, part = now + fill, fill_part
      else
        return
      end
      sum, sum_part = warm_up + fill, fill_part
    end,
    step = function(cost)
      local to, rest, cold, cold_part = full, part, coldest(less(sum, sum_part, fill, fill_part))
      local idle = now - ceiled(full, part)
      if idle >= 0 then
        to, rest = now, 0
        cold, cold_part = coldest(cold + idle, cold_part)
      end
      -- How far a bucket is beyond the furthest after a cost of `more`.
      local function beyond(more, from, from_part)
        local span, ticks = price(more, cold, cold_part)
        -- Subtract first: an instant and two spans of 100 years add up to more than 2^53.
        return ceiled(carried(span - fill + (from - now), ticks - fill_part + from_part, per))
      end
      -- Without other requests the rule only gets colder.
      local is_never, booked = cost > burst or beyond(cost, now, 0) > 0, to
      local wait = not is_never and cost > 0 and max(0, beyond(cost, to, rest)) or 0
      local outcome = is_never and NEVER or wait > 0 and REFUSED or ADMITTED
      local charged = outcome == ADMITTED and cost or 0
      if charged > 0 then
        local span, ticks = price(cost, cold, cold_part)
        to, rest = carried(to + span, rest + ticks, per)
        span, ticks = scale(cost, us, per)
        sum, sum_part = carried(cold + fill - span, cold_part + fill_part - ticks, per)
        cold, cold_part = less(cold, cold_part, span, ticks)
        full, part, latest = to, rest, max(now, latest)
      end
      local room, room_part = less(fill, fill_part, to - now, rest)
      local remaining, most = 0, tokens(room, room_part, us, per)
      while remaining < most do
        -- A warm unit takes one token.
        local middle = cold < half and most or ceil((remaining + most) / 2)
        if beyond(middle, to, rest) > 0 then most = middle - 1 else remaining = middle end
      end
      local more = beyond(remaining + 1, now, 0) > 0 and 0 or beyond(remaining + 1, to, rest)
      local full_in = ceiled(to - now, rest)
      return {
        outcome, wait, remaining, more, full_in, charged, now, booked, refunds, cuts, 0, 0, 0,
      }
    end,
    refund = function(cost, at, booked, of_refunds, of)
      if of ~= cuts then return end
      local span, rest = scale(min(cost, burst), us, per)
      local before, before_part = carried(sum + span, sum_part + rest, per)
      local cold, cold_part = coldest(less(before, before_part, fill, fill_part))
      local to, to_part = less(full, part, price(min(cost, burst), cold, cold_part))
      local no_refunds = of_refunds == refunds
      if no_refunds and to == booked then
        full, part, sum, sum_part = to, to_part, before, before_part
        return
      end
      -- What the bucket has gained meanwhile only because it was charged.
      local gained = max(0, max(now, latest) - (no_refunds and booked or at))
      cold, cold_part = coldest(less(sum, sum_part, fill, fill_part))
      full, part = less(full, part, less(span, rest, gained, 0))
      sum, sum_part = carried(cold + span + fill, cold_part + rest + fill_part, per)
      refunds = refunds + 1
    end,
    life = function()
      local cold = coldest(less(sum, sum_part, fill, fill_part))
      return max(full - now + warm_up - cold, starts_empty * DAY)
    end,
  }
end

-- W. A value: window · used · cuts.
local function window(rpu, unit, borrow)
  local current, number, used, cuts = (now - now % unit) / unit

  -- The window that counts now, and what is used of it.
  local function counting()
    if number < current then return current, 0 end
    return number, used
  end

  local function step(cost)
    local at, taken = counting()
    local outcome, charged = judge(cost, taken, rpu)
    if charged > 0 then number, used, taken = at, taken + charged, taken + charged end
    local ends = (at + 1) * unit - now
    local wait, full = outcome == REFUSED and ends or 0, taken > 0 and ends or 0
    local left, booked = max(rpu - taken, 0), at * unit
    return {outcome, wait, left, full, full, charged, now, booked, 0, cuts, 0, 0, 0}
  end

  return {
    size = 4,
    decode = function(v) number, used, cuts = unpack(v, 2, 4) end,
    encode = function() return {WINDOW, number, used, cuts} end,
    prepare = function()
      if number > current and number * unit - now > LAG then number, cuts = current, cuts + 1 end
    end,
    step = step,
    charge = function(cost)
      local at, taken = counting()
      cost = min(cost, rpu + borrow - taken)
      if cost > 0 then number, used = at, taken + cost end
    end,
    refund = function(cost, at, booked, _, of)
      if booked == number * unit and of == cuts then used = max(0, used - cost) end
    end,
    leasable = function() return rpu, 0 end,
    lease = function(units)
      step(units)
      return generation(number, cuts), (number + 1) * unit - now
    end,
    return_lease = function(of, _, left)
      if of == generation(number, cuts) then used = max(0, used - left) end
    end,
    life = function() return (number + 1) * unit - now end,
  }
end

-- W of a unit of the calendar. A value: end · used · number · cuts. The gateway's calendar names
-- the present period and its neighbours, and this clock chooses among them. See calendar.rs.
local function calendar(rpu, present, begins, ends, next_ends, borrow)
  local over, used, number, cuts
  local current, last = present, ends
  if now < begins then current, last = present - 1, begins end
  if now >= ends then current, last = present + 1, next_ends end
  local longest = max(ends - begins, next_ends - ends)
  -- That of another anchor in another zone.
  longest = longest + min(longest / 8, 25 * HOUR)

  -- The period that counts now: its number, its end, and what is used.
  local function counting()
    if over <= now and number < current then return current, last, 0 end
    return number, over, used
  end

  return {
    size = 5,
    decode = function(v) over, used, number, cuts = unpack(v, 2, 5) end,
    encode = function() return {CALENDAR, over, used, number, cuts} end,
    prepare = function()
      if over - now > longest then over, number, cuts = last, current, cuts + 1 end
    end,
    step = function(cost)
      local at, till, taken = counting()
      local outcome, charged = judge(cost, taken, rpu)
      if charged > 0 then
        taken = taken + charged
        over, used, number = till, taken, at
      end
      -- The first boundary after which the number is larger.
      local boundary = at > present + 1 and 2 * next_ends - ends or at > present and next_ends
        or at == present and ends or begins
      local wait = max(till, at < current and 0 or boundary) - now
      -- The clock of the gateway is behind by more than a period.
      if wait <= 0 then wait = SECOND end
      local full = taken > 0 and wait or 0
      wait = outcome == REFUSED and wait or 0
      local left = max(rpu - taken, 0)
      return {outcome, wait, left, full, full, charged, now, till, at, cuts, 0, 0, 0}
    end,
    charge = function(cost)
      local at, till, taken = counting()
      cost = min(cost, rpu + borrow - taken)
      if cost > 0 then over, used, number = till, taken + cost, at end
    end,
    refund = function(cost, at, booked, of_number, of)
      if booked == over and of_number == number and of == cuts then used = max(0, used - cost) end
    end,
    -- By another anchor, the next period has this number.
    life = function() return over - now + longest end,
  }
end

-- SW. A value: newest slice · by how many slices it was moved · a count for each slice, at the
-- slice number modulo len.
local function sliding_window(limit, span, len, borrow)
  local current, newest, moved, counts = (scale(now, len, span))
  local function begins(slice)
    return (slice - slice % len) / len * span + ceil(slice % len * span / len)
  end

  -- How long until so many requests have left the window, or all; and how many are in the window.
  local function until_left(cost)
    local sum, wait = 0, 0
    for slice = max(newest, current) - len + 1, newest do
      local count = counts[slice % len]
      if count > 0 then
        if sum < cost then wait = slice end
        sum = sum + count
      end
    end
    return sum > 0 and max(0, begins(wait + len) - now) or 0, sum
  end

  local function add(cost)
    local at = max(newest, current)
    for slice = max(newest, at - len) + 1, at do counts[slice % len] = 0 end
    newest, counts[at % len] = at, counts[at % len] + cost
  end

  local function take(cost, slice)
    local at = slice % len
    if slice <= newest and newest - slice < len then counts[at] = max(0, counts[at] - cost) end
  end

  local function step(cost)
    local booked, full, sum = begins(max(newest, current)), until_left(huge)
    local outcome, charged = judge(cost, sum, limit)
    local wait = outcome == REFUSED and until_left(sum + cost - limit) or 0
    if charged > 0 then
      add(charged)
      full, sum = until_left(huge)
    end
    local left, more = max(limit - sum, 0), until_left(max(sum - limit, 0) + 1)
    return {outcome, wait, left, more, full, charged, now, booked, 0, moved, 0, 0, 0}
  end

  return {
    size = 3 + len,
    decode = function(v)
      newest, moved, counts = v[2], v[3], {unpack(v, 5, 3 + len)}
      counts[0] = v[4]
    end,
    encode = function() return {SLIDING_WINDOW, newest, moved, unpack(counts, 0, len - 1)} end,
    prepare = function()
      local by, from = newest - current, counts
      if by <= 0 or begins(newest) - now <= LAG then return end
      counts = {}
      for at = 0, len - 1 do counts[at] = 0 end
      for slice = newest - len + 1, newest do
        -- No slice is before the epoch.
        local at = max(0, slice - by) % len
        counts[at] = counts[at] + from[slice % len]
      end
      newest, moved = current, (moved + by) % 2 ^ 32
    end,
    step = step,
    charge = function(cost)
      local _, sum = until_left(huge)
      cost = min(cost, limit + borrow - sum)
      if cost > 0 then add(cost) end
    end,
    refund = function(cost, at, booked, _, of)
      if of == moved then take(cost, (scale(booked, len, span))) end
    end,
    leasable = function() return limit, 0 end,
    lease = function(units)
      step(units)
      return generation(newest, moved), begins(newest + 1) - now
    end,
    return_lease = function(of, _, left)
      if of % 16 == moved % 16 then take(left, (of - of % 16) / 16) end
    end,
    life = function() return begins(newest + len) - now end,
  }
end

-- SL. A value: newest instant · cuts · the age of each request, newest first.
local function sliding_log(rpu, unit)
  local newest, cuts, ages

  -- The instant from which ages count, and the ages at that instant.
  local function live()
    local all, count, passed = {}, 0, max(0, now - newest)
    for i = 1, #ages do
      local age = ages[i] + passed
      if age < unit then count, all[count + 1] = count + 1, age end
    end
    return count > 0 and max(now, newest) or now, all
  end

  return {
    size = 3,
    decode = function(v) newest, cuts, ages = v[2], v[3], {unpack(v, 4, 131)} end,
    encode = function() return {SLIDING_LOG, newest, cuts, unpack(ages)} end,
    prepare = function()
      if newest - now > LAG then newest, cuts = now, cuts + 1 end
    end,
    step = function(cost)
      local from, all = live()
      local outcome, charged = judge(cost, #all, rpu)
      local function leaves_in(age) return age and from + unit - age - now or 0 end
      local wait = outcome == REFUSED and leaves_in(all[rpu - cost + 1]) or 0
      if charged > 0 then
        for i = #all, 1, -1 do all[i + charged] = all[i] end
        for i = 1, charged do all[i] = 0 end
        newest, ages = from, all
      end
      -- The instants above the quota, which another quota admitted, leave first.
      local more, full = leaves_in(all[min(#all, rpu)]), leaves_in(all[1])
      return {outcome, wait, max(0, rpu - #all), more, full, charged, now, from, 0, cuts, 0, 0, 0}
    end,
    refund = function(cost, at, booked, _, of)
      local from, all = live()
      local kept, struck = {}, max(0, from - booked)
      for _, age in ipairs(all) do
        if age == struck and cost > 0 then cost = cost - 1 else kept[#kept + 1] = age end
      end
      if #kept < #all and of == cuts then newest, ages = from, kept end
    end,
    life = function() return newest + unit - now end,
  }
end

-- LB. A value: the next turn, us and part · cuts and new rows · the a to d of the last charge,
-- which are the carried quota; c is more by GAP if the next turn does not follow the last one,
-- because that was refunded · which of the last turns were refunded; 0 is the turn before the next.
-- The next turn comes as long after the last one as the faster of this quota and the carried one
-- says. See leaky_bucket.rs.
local function leaky_bucket(own_us, own_per, own_longest, own_longest_part, turns)
  -- Above every span of a queue, its a and its b.
  local GAP = 2199023255552
  local turn, part, cuts, us, per, longest, longest_part, gap, refunded

  local function decode(v)
    turn, part, cuts, us, per, longest, longest_part = unpack(v, 2, 8)
    gap, refunded = longest < GAP and 0 or GAP, {unpack(v, 9)}
    longest = longest - gap
  end

  local function encode()
    return {LEAKY_BUCKET, turn, part, cuts, us, per, longest + gap, longest_part, unpack(refunded)}
  end

  -- The quota by which the queue goes on without a charge: the carried one, if it is one.
  local function present()
    local is_quota = us > 0 and us <= WEEK and per > 0 and per < 2 ^ 32 and longest <= HOUR
    if is_quota and longest_part < per then return us, per, longest, longest_part end
    return own_us, own_per, own_longest, own_longest_part
  end

  -- Keeps the refunded turns, moved by so many places.
  local function keep(all, by)
    refunded = {}
    for _, at in ipairs(all) do
      if at + by >= 0 and at + by < turns then refunded[#refunded + 1] = at + by end
    end
  end

  return {
    size = 8, decode = decode, encode = encode,
    prepare = function()
      local by_us, by_per, by_longest, by_part = present()
      local token, token_part = scale(1, by_us, by_per)
      local most, rest = carried(now + by_longest + token + LAG, by_part + token_part, by_per)
      part = min(part, by_per - 1)
      if ceiled(carried(turn - most, part - rest, by_per)) > 0 then
        turn, part, cuts, gap, refunded = most, rest, cuts + 1, GAP, {}
        us, per, longest, longest_part = by_us, by_per, by_longest, by_part
      end
    end,
    step = function(cost)
      local by_us, by_per = present()
      local was = (by_us ~= own_us or by_per ~= own_per) and encode()
      if was then
        -- The next turn may come sooner by this quota.
        local token = ceiled(scale(1, own_us, own_per))
        local sooner = gap > 0 and 0 or max(0, scale(1, by_us, by_per) - token)
        turn, part, cuts, refunded = max(0, ceiled(turn, part) - sooner), 0, cuts + 1, {}
      end
      local first, first_part = turn, part
      if turn < now then first, first_part = now, 0 end
      -- How many requests would have turns within reach.
      local function places(at, rest)
        local span, ticks = carried(now + own_longest - at, own_longest_part - rest, own_per)
        return span < 0 and 0 or tokens(span, ticks, own_us, own_per) + 1
      end
      local function beyond(at, rest, more)
        local span, ticks = scale(more, own_us, own_per)
        at, rest = at + span - now - own_longest, rest + ticks - own_longest_part
        return max(0, ceiled(carried(at, rest, own_per)))
      end
      local capacity, next_turn, next_part = places(now, 0), first, first_part
      local outcome, charged = judge(cost, capacity - places(first, first_part), capacity)
      local wait = outcome == REFUSED and beyond(first, first_part, cost - 1) or 0
      if charged > 0 then
        wait = ceiled(first - now, first_part)
        local span, ticks = scale(cost, own_us, own_per)
        next_turn, next_part = carried(first + span, first_part + ticks, own_per)
        -- Turns follow closely until the queue is empty; then a new row begins.
        keep(turn < first and {} or refunded, cost)
        turn, part, gap = next_turn, next_part, 0
        us, per, longest, longest_part = own_us, own_per, own_longest, own_longest_part
      end
      local left, full = places(next_turn, next_part), ceiled(next_turn - now, next_part)
      local more = left == capacity and 0 or beyond(next_turn, next_part, left)
      local one = {outcome, wait, left, more, full, charged, now, first, first_part, cuts, 0, 0, 0}
      if was and charged == 0 then decode(was) end
      return one
    end,
    refund = function(cost, at, booked, booked_part, of)
      local by_us, by_per, by_longest, by_part = present()
      local span, rest = scale(cost, by_us, by_per)
      local behind, behind_part = carried(turn - booked - span, part - booked_part - rest, by_per)
      if of ~= cuts or behind < 0 then return end
      local between = tokens(behind, behind_part, by_us, by_per)
      span, rest = scale(between, by_us, by_per)
      if span ~= behind or rest ~= behind_part then return end
      local is_refunded, all = {}, {}
      for _, place in ipairs(refunded) do is_refunded[place] = true end
      for place = between, min(between + cost, turns) - 1 do is_refunded[place] = true end
      local last = between == 0 and cost or 0
      while is_refunded[last] do last = last + 1 end
      for place in pairs(is_refunded) do all[#all + 1] = place end
      keep(all, -last)
      span, rest = scale(last, by_us, by_per)
      turn, part = carried(turn - span, part - rest, by_per)
      us, per, longest, longest_part, gap = by_us, by_per, by_longest, by_part, GAP
    end,
    life = function() return turn - now end,
  }
end

-- C, and gateways that live: each holds a permit. A value, for each holder of permits: its number ·
-- the number of its last call · its permits · when it reported, ms. A holder is a gateway's worker.
-- Each query reports how many permits the worker holds at most, without those that it requests in
-- this call. The first query of a call sets the count; later queries and late calls only add.
local function permits(limit, _, holder, call, level, expire, kind)
  -- The numbers of a holder behind its own, and how many numbers 900 holders have.
  local CALL, HELD, REPORTED, FULL = 1, 2, 3, 3601
  local at, all, own = (now - now % 1000) / 1000

  local function put(i, held)
    all[i], all[i + CALL], all[i + HELD], all[i + REPORTED], own = holder, call, held, at, i
  end

  local function decode(v)
    local kept = 2
    all, own = {kind}, nil
    for i = 2, #v - 3, 4 do
      -- A clock that has stepped back does not extend a report.
      local reported = min(v[i + REPORTED], at)
      if (at - reported) * 1000 < expire then
        all[kept], all[kept + CALL] = v[i], v[i + CALL]
        all[kept + HELD], all[kept + REPORTED] = v[i + HELD], reported
        if v[i] == holder then own = own or kept end
        kept = kept + 4
      end
    end
  end

  return {
    size = 1, decode = decode,
    encode = function() return {unpack(all)} end,
    prepare = function()
      local is_late = own and all[own + CALL] >= call
      if not is_late and (own or level > 0 and #all < FULL) then put(own or #all + 1, level) end
    end,
    step = function(cost)
      local sum = 0
      for i = 2 + HELD, #all, 4 do sum = sum + all[i] end
      local outcome, charged = judge(cost, not own and #all >= FULL and huge or sum, limit)
      if charged > 0 and own then
        all[own + HELD] = all[own + HELD] + charged
      elseif charged > 0 then
        put(#all + 1, charged)
      end
      sum = sum + charged
      -- It is unknown when a permit returns.
      local wait, more = outcome == REFUSED and SECOND or 0, sum > 0 and SECOND or 0
      return {outcome, wait, max(limit - sum, 0), more, more, charged, now, 0, 0, 0, 0, 0, 0}
    end,
    life = function() return expire end,
  }
end

-- A rule that refuses all requests has no value.
local function refuses_all()
  return {
    size = 0, decode = function() end, encode = function() return {0} end,
    step = function(cost)
      return {cost > 0 and NEVER or ADMITTED, 0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0}
    end,
  }
end

-- The numbers of a text; none if one is too large for a value.
local function numbers(text, bound)
  local all, count = {}, 0
  for word in text:gmatch('%d+') do
    local number = word + 0
    if number >= bound then return {} end
    count, all[count + 1] = count + 1, number
  end
  return all
end

-- One flat list of whole numbers for all queries, after the number of the call.
local reply = {ARGV[1] + 0}
local function has(flags, flag) return flags % (2 * flag) >= flag end
local function is_by_quota(one) return one[OUTCOME] == REFUSED or one[OUTCOME] == NEVER end

-- The cells of this call by key, and in the order in which they were first named.
local cells, used = {}, 0

-- The cell of the next key, read once. A value of another kind counts as none. If a grant may pay,
-- the grant's key follows.
local function next_cell(kind, takes_grants)
  local key = KEYS[used + 1]
  local cell = cells[key]
  if not cell then
    cell = {key = key, kind = kind}
    cells[key], cells[#cells + 1] = cell, cell
    local value = kind > 0 and redis.pcall('GET', key)
    if type(value) == 'string' and #value < 60000 and value:match('^%d[%d ]+$') then
      local v, p = numbers(value, MOST_NUMBER)
      if #v > MOST_NUMBERS then v = {} end
      if v[1] == WITH_PENALTY and #v > 4 then
        p = {counts_until = v[2], refusals = v[3], ends = v[4], lasts = v[5]}
        -- A value without more than a kind has only refusals.
        v = #v > 6 and {unpack(v, 6)} or nil
      end
      if not v or v[1] == kind then cell.values, cell.penalty = v, p end
    end
  elseif cell.kind ~= kind then
    cell.kind, cell.values, cell.rule, cell.penalty = kind, nil, nil, nil
  end
  used = used + (takes_grants and 2 or 1)
  if takes_grants then cell.grant_key = KEYS[used] end
  return cell
end

local kinds = {
  token_bucket, window, sliding_window, sliding_log, leaky_bucket, refuses_all, permits, warming,
  refuses_all, permits, calendar,
}

-- The rule of a cell that counts by a to f. The latest rule of a cell has its value.
local function rule_of(cell, a, b, c, d, e, f)
  local kind = cell.kind
  local rule = (kinds[kind] or refuses_all)(a, b, c, d, e, f, kind)
  if cell.rule then
    rule.decode(cell.rule.encode())
  else
    local v = cell.values or {kind}
    for n = #v + 1, rule.size do v[n] = 0 end
    rule.decode(v)
    cell.values, cell.read = v, v
  end
  if rule.prepare then rule.prepare() end
  cell.rule = rule
  return rule
end

-- The penalty of a rule, which ends in time if the clock has stepped back. See penalty.rs.
local function penalty_of(cell, after, unit, lasts)
  local p = cell.penalty or {counts_until = 0, refusals = 0, ends = 0, lasts = 0}
  cell.penalty = p
  if p.refusals > 0 and p.counts_until - now > unit + LAG then
    p.counts_until, p.is_changed = now + unit, true
  end
  local length = p.lasts > 0 and min(p.lasts, WEEK) or lasts
  if p.ends - now > length + LAG then p.ends, p.is_changed = now + length, true end
  return {after = after, unit = unit, lasts = lasts}
end

-- A refusal by the quota, or a look, with the rest of a penalty on top.
local function on_top(one, p, cost)
  local rest = p.ends - now
  if rest <= 0 then return one end
  if cost > 0 then
    one[WAIT] = one[OUTCOME] == NEVER and 0 or max(one[WAIT], rest)
    one[OUTCOME] = (one[OUTCOME] == NEVER and NEVER or REFUSED) + PENALIZED
  end
  one[MORE_IN] = max(rest, one[REMAINING] > 0 and 0 or one[MORE_IN])
  one[REMAINING], one[FULL_IN] = 0, max(rest, one[FULL_IN])
  return one
end

local function count_refusal(one, p, penalty)
  if penalty.after > 0 and p.ends <= now then
    if p.refusals == 0 or p.counts_until <= now then
      p.counts_until, p.refusals = now + penalty.unit, 0
    end
    p.refusals, p.is_changed = p.refusals + 1, true
    if p.refusals >= penalty.after then
      p.refusals, p.ends, p.lasts = 0, now + penalty.lasts, penalty.lasts
    end
  end
  on_top(one, p, 1)
end

-- The rule of a query, with the value of its cell.
local function current(query)
  local cell, rule = query.cell, query.rule
  if cell.rule ~= rule then rule.decode(cell.rule.encode()) end
  cell.rule = rule
  return rule
end

-- A step of a query by its quota, unless a penalty runs.
local function step_by_quota(query, cost)
  local rule, p = current(query), query.penalty and query.cell.penalty
  if not p or p.ends <= now then return rule.step(cost) end
  local one = rule.step(0)
  return on_top(cost > one[REMAINING] and rule.step(cost) or one, p, cost)
end

-- A step of a query, which may have to leave units. See headroom.rs.
local function step(query, cost)
  local units, one = query.headroom
  if not units then return step_by_quota(query, cost) end
  if cost > 0 then
    local was = query.cell.rule.encode()
    one = step_by_quota(query, cost + units)
    if one[OUTCOME] == ADMITTED then query.rule.decode(was) end
  end
  if not one or one[OUTCOME] == ADMITTED then one = step_by_quota(query, cost) end
  one[REMAINING] = one[REMAINING] - units
  if one[REMAINING] < 0 then
    -- The headroom comes back first. A refused step changes nothing.
    one[REMAINING], one[MORE_IN] = 0, step_by_quota(query, units + 1)[WAIT]
  end
  return one
end

-- Grants: see grant.rs. A grant is read only if the quota refuses. Its value is LEFT END.
local function grant_of(cell)
  local grant = cell.grant
  if not grant then
    local value = cell.grant_key and redis.pcall('GET', cell.grant_key)
    local v = type(value) == 'string' and #value < 40 and numbers(value, MOST_NUMBER) or {}
    local is_grant = #v == 2 and v[1] < 1e15
    grant = {left = is_grant and v[1] or 0, ends = is_grant and v[2] or 0}
    cell.grant = grant
  end
  if grant.ends <= now then grant.left = 0 end
  return grant
end

local function give(cell, left, ends)
  cell.grant = {left = left, ends = ends, is_changed = cell.grant_key}
end

-- Gives a grant units back, or takes more. Returns how many the grant lacks.
local function correct_grant(cell, ends, more)
  local grant = grant_of(cell)
  local taken = grant.ends == ends and min(more, grant.left) or 0
  if grant.left > 0 and taken ~= 0 or grant.ends == ends and grant.ends > now and more < 0 then
    give(cell, grant.left - taken, ends)
  end
  return more - taken
end

-- The groups of queries of a decision, and all queries.
local function read_groups(v)
  local groups, queries, i = {}, {}, 3
  for g = 1, v[2] do
    local group = {}
    groups[g], i = group, i + 1
    for n = 1, v[i - 1] do
      local flags = v[i + 1]
      local cell = next_cell(v[i], has(flags, GRANTS))
      local rule = rule_of(cell, unpack(v, i + 4, i + 9))
      local query = {cell = cell, rule = rule, flags = flags, cost = v[i + 2], lease = v[i + 3]}
      group[n], queries[#queries + 1], i = query, query, i + 10
      if has(flags, PENALTY) then
        query.penalty, i = penalty_of(cell, v[i], v[i + 1], v[i + 2]), i + 3
      end
      if has(flags, HEADROOM) then query.headroom, i = v[i], i + 1 end
      if has(flags, RESTS) then query.rest, i = v[i], i + 1 end
    end
  end
  return groups, queries
end

-- Steps a query, whose grant may pay all of what its quota refuses.
local function ask(query)
  local cell, flags, cost = query.cell, query.flags, query.cost
  local peeks = has(flags, PEEKS)
  local was = peeks and cell.rule.encode()
  local one = step(query, peeks and 1 or cost)
  if peeks and one[OUTCOME] == ADMITTED then
    query.rule.decode(was)
    one = step(query, 0)
  end
  if has(flags, GRANTS) and is_by_quota(one) then
    local grant = grant_of(cell)
    if grant.left >= max(cost, 1) then
      give(cell, grant.left - cost, grant.ends)
      one[OUTCOME], one[WAIT], one[COST] = ADMITTED, 0, cost
      one[BOOKED], one[STAMP], one[STAMP + 1] = GRANTED, grant.ends, 0
    end
  end
  local rest = min(cost, one[REMAINING])
  if query.rest and is_by_quota(one) and rest >= query.rest then one = step(query, rest) end
  return one
end

-- Leases the same part of each rule of a group.
local function lease(group)
  local part = huge
  for n = 1, #group do
    local query, rule, most, arriving = group[n], current(group[n]), 0, 0
    local left = query.verdict[REMAINING]
    if query.lease > 0 and rule.leasable and not query.penalty and not query.headroom then
      most, arriving = rule.leasable()
    end
    part = min(part, query.lease, left, most, floor((left + arriving) / 8))
  end
  for n = 1, part > 0 and #group or 0 do
    local one, rule = group[n].verdict, current(group[n])
    one[LEASED], one[GENERATION], one[LASTS] = part, rule.lease(part)
    local left = rule.step(0)
    one[REMAINING], one[MORE_IN], one[FULL_IN] = left[REMAINING], left[MORE_IN], left[FULL_IN]
  end
end

local function decide(v)
  local groups, queries = read_groups(v)
  local before, is_refused, passes = {}, false, true
  for n = 1, #queries > 1 and #queries or 0 do before[n] = queries[n].cell.rule.encode() end
  for n = 1, #queries do
    local query, one = queries[n], ask(queries[n])
    query.verdict = one
    is_refused = is_refused or has(query.flags, ENFORCED) and one[OUTCOME] > ADMITTED
    passes = passes and one[OUTCOME] + one[WAIT] == 0 and one[BOOKED] < GRANTED
  end
  if is_refused and #queries > 1 then
    for n, query in ipairs(queries) do query.cell.rule.decode(before[n]) end
    for _, query in ipairs(queries) do
      local one = query.verdict
      if one[BOOKED] == GRANTED then correct_grant(query.cell, one[STAMP], -one[COST]) end
      if one[OUTCOME] == ADMITTED then query.verdict = step(query, 0) end
    end
  end
  for n = 1, #queries do
    local one, p, penalty = queries[n].verdict, queries[n].cell.penalty, queries[n].penalty
    if penalty and is_by_quota(one) then count_refusal(one, p, penalty) end
  end
  for g = 1, passes and #groups or 0 do lease(groups[g]) end
  for n = 1, #queries do
    local one, size = queries[n].verdict, #reply
    for i = OUTCOME, LASTS do reply[size + i] = one[i] end
  end
end

-- Corrects charges to a final cost, which is 0 for a refund. Only a charge of more makes a value.
local function settle(v, size)
  for i = 3, 2 + v[2] * size, size do
    local cost, at, booked, first, second, final = unpack(v, i + 7, i + size - 1)
    local cell = next_cell(v[i], booked == GRANTED)
    final = final or 0
    if booked == GRANTED then
      -- What the grant lacks, the quota owes.
      cost, final = 0, max(0, correct_grant(cell, first, final - cost))
    end
    local has_work = final > cost or final < cost and cell.values
    local rule = has_work and rule_of(cell, unpack(v, i + 1, i + 6)) or {}
    if rule.charge and final > cost then
      rule.charge(final - cost)
    elseif rule.refund and final < cost then
      local kept = rule.kept and rule.kept(final) or 0
      rule.refund(cost - final, at + kept, booked + kept, first, second)
    end
  end
  reply[#reply + 1] = 0
end

-- Returns leases, each of which has three numbers more, or reports permits. A rule without a value
-- has no lease.
local function return_or_report(v, size)
  for i = 3, 2 + v[2] * size, size do
    local cell = next_cell(v[i])
    local rule = (size == 7 or cell.values) and rule_of(cell, unpack(v, i + 1, i + 6))
    if rule and rule.return_lease then rule.return_lease(unpack(v, i + 7, i + size - 1)) end
  end
  reply[#reply + 1] = 0
end

-- Both queries are about the same key.
local function inspect(v)
  local change, first, cell = v[2], used, next_cell(v[7], has(v[8], GRANTS))
  local p = cell.penalty
  used = first
  if change == RESET then
    -- An empty value, because the user of Redis may be allowed only SET and GET.
    redis.call('SET', cell.key, '', 'PX', 1)
    cell.values, cell.rule, cell.penalty = nil, nil, nil
    give(cell, 0, 0)
  elseif change == GRANT then
    give(cell, v[3], now + v[4])
  elseif change == END_PENALTY and p and p.ends > now then
    p.ends, p.lasts, p.is_changed = 0, 0, true
  end
  decide({DECIDE, unpack(v, 5)})
  local grant = grant_of(cell)
  reply[#reply + 1] = cell.penalty and max(0, cell.penalty.ends - now) or 0
  reply[#reply + 1], reply[#reply + 2] = grant.left, grant.left > 0 and grant.ends - now or 0
end

for i = 2, #ARGV do
  local v = numbers(ARGV[i], huge)
  local command = v[1]
  if command == DECIDE then decide(v)
  elseif command == REFUND then settle(v, 12)
  elseif command == RETURN then return_or_report(v, 10)
  elseif command == REPORT then return_or_report(v, 7)
  elseif command == SETTLE then settle(v, 13)
  elseif command == INSPECT then inspect(v) end
end

local function differ(a, b)
  for i = 1, max(#a, #b) do if a[i] ~= b[i] then return true end end
end

for _, cell in ipairs(cells) do
  local p, rule, grant = cell.penalty, cell.rule, cell.grant
  local value = rule and rule.encode()
  if value and rule.life and (p and p.is_changed or differ(value, cell.read)) then
    local life = max(0, rule.life())
    -- Trailing zeros are dropped, except for ages, turns and holders.
    while value[#value] == 0 and value[1] <= SLIDING_WINDOW do value[#value] = nil end
    if p and p.refusals + p.ends > 0 then
      value = {WITH_PENALTY, p.counts_until, p.refusals, p.ends, p.lasts, unpack(value)}
      life = max(life, p.refusals > 0 and p.counts_until - now or 0, p.ends - now)
    end
    local text = ('%.0f '):rep(#value):format(unpack(value))
    -- As long as the value matters, and five seconds more.
    redis.call('SET', cell.key, text, 'PX', ceil(life / 1000) + 5000)
  end
  if grant and grant.is_changed then
    local life = max(1, ceil((grant.ends - now) / 1000))
    redis.call('SET', cell.grant_key, ('%.0f %.0f'):format(grant.left, grant.ends), 'PX', life)
  end
end
-- A probe has no commands. It fails on a Redis that is read-only or full.
if #ARGV == 1 then redis.call('SET', KEYS[1], 1, 'PX', 1000) end
return reply
