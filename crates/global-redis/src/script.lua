-- Decides requests in Redis for all gateways: whole commands in order. Each command charges all of
-- its rules or none.
--
--   KEYS   one for each rule of each command, in order; keys may repeat
--   ARGV   first the number of the call, which begins the reply, so that the caller recognises its
--          reply; then commands: whole numbers below 2^53, separated by spaces. A call without
--          commands is a probe: whether the key can be written.
--
--   1 G (N (KIND FLAGS COST LEASE a b c d e f PENALTY KEPT){N}){G}    decide on G groups of rules
--   2 N (KIND a b c d e f COST AT BOOKED STAMP STAMP){N}    refund charges
--   3 N (KIND a b c d e f GENERATION USED LEFT){N}          return leases
--   4 N (KIND a b c d e f){N}                               report the permits of a worker
--   5 N (KIND a b c d e f COST AT BOOKED STAMP STAMP FINAL){N}    correct charges to a final cost
--   6 CHANGE AMOUNT FOR 2 (1 (as in 1)){2}                  answer an operator about one rule
--
-- FLAGS are 1 for a rule that refuses, plus 2 if a cost of 0 is refused without one unit left, plus
-- 4 for a rule with a penalty, plus 8 if the request has to leave units, plus 16 if a grant may
-- pay. Only with 4, PENALTY is AFTER UNIT FOR: AFTER refusals within UNIT begin a penalty that
-- lasts FOR. If AFTER is 0, a refusal of this request does not count. Only with 8, the request has
-- to leave KEPT units. REMAINING and MORE_IN are then without them.
--
-- The reply to `decide` has 13 numbers for each rule: OUTCOME WAIT REMAINING MORE_IN FULL_IN, then
-- the charge COST AT BOOKED STAMP STAMP, then the lease AMOUNT GENERATION LASTS. OUTCOME is 0 for
-- an admitted request, which waits for WAIT, 1 for a refused request, and 2 for a request that is
-- refused for ever; 3 and 4 are the same during a penalty. The reply to 6 is the same, then how
-- long a penalty lasts, and what is left of a grant and for how long. Before that, CHANGE is made:
-- 1 forgets the value, 2 ends a penalty, 3 grants AMOUNT units, and 0 changes nothing. The reply to
-- the other commands is 0.
--
-- crates/limiter/src/algorithm/ documents how each kind counts, and its parameters.rs what a to f are.
-- Here are the same formulas in microseconds. A value is decimal numbers, first its kind. The value of
-- a rule with a penalty may begin with 9 · when the counted unit ends · the refusals in it · when the
-- penalty ends · how long it lasts. Any other value is foreign and is overwritten.
--
-- Gateways spend a lease of up to LEASE by themselves until it LASTS. A lease is at most an eighth
-- of what is left and what arrives within a second, so that no gateway holds the end of a quota
-- while others refuse. A window or slice counts a lease as used, and subtracts what is LEFT on
-- return. A bucket keeps leases apart: it is full when its tokens and its leases make the burst. It
-- leases by the second; two seconds after a second began, leases of that second that were not
-- returned count as spent. The clock may step back, so a GENERATION is the number of the second,
-- window or slice and four bits of how often a cell was cut.

local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local LAG, SECOND, HOUR, DAY = 1000000, 1000000, 3600000000, 86400000000
-- No quota of a configuration has a longer unit, or a bucket that takes longer to fill.
local WEEK, CENTURY = 7 * DAY, 36500 * DAY
-- Above every span of a queue, its a and its b.
local REFUNDED = 2 ^ 41
-- FULL numbers are those of 900 holders of permits. No value has more than MOST numbers.
local FULL, MOST = 3601, 4000
-- The instant at which a charge that a grant has paid is booked.
local GRANTED = 2 ^ 53 - 1
local max, min, huge = math.max, math.min, math.huge

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

local function ceiled(us, part)
  return part > 0 and us + 1 or us
end

-- The number of tokens that arrive in a span, at us / per each.
local function tokens(span, part, us, per)
  local whole, rest = scale(span, per, us)
  rest = rest + part
  return whole + (rest - rest % us) / us
end

-- How much further from full than an empty bucket a bucket may be: the tolerated difference of
-- clocks, or less if a token takes less than the unit.
local function slack_of(us, per, unit)
  local token, part = scale(1, us, per)
  token, part = carried(unit - token, -part, per)
  if token >= LAG then
    return LAG, 0
  end
  return token, part
end

local function generation(number, cuts)
  return number * 16 + cuts % 16
end

-- How long the tokens that come in a span, and so many more or fewer, take at another rate. Rounded
-- up, and at least zero.
local function converted(span, part, more, us, per, to_us, to_per)
  local whole, rest = scale(span, per, us)
  rest = rest + part
  whole, rest = whole + (rest - rest % us) / us + more, rest % us
  if whole < 0 then
    return 0, 0
  end
  local time, time_part = scale(whole, to_us, to_per)
  local ticks, left = scale(rest, to_us, us)
  return carried(time, time_part + ceiled(ticks, left), to_per)
end

local function restore(cell, before, changed)
  local s = cell.s
  for i = 1, max(#s, #before) do
    s[i] = before[i]
  end
  cell.changed = changed
end

-- TB of one quota. A value: when the bucket is full except for its leases, us and part · refunds ·
-- cuts · latest instant · second · leased in that second · leased in the second before · the a to f
-- of the last charge, which are the carried quota · changes of rate.
local function bucket_of(cell, s, us, per, burst, max_wait, starts_empty, unit)
  -- Settling may take so many units more than there are.
  local borrow = (starts_empty - starts_empty % 2) / 2
  starts_empty = starts_empty % 2
  local fill, fill_part = scale(burst, us, per)
  local capacity = max_wait > 0 and tokens(fill + max_wait, fill_part, us, per) or burst

  local function spend(cost, at)
    if s[2] < at then
      s[2], s[3] = at, 0
    end
    local span, part = scale(cost, us, per)
    s[2], s[3] = carried(s[2] + span, s[3] + part, per)
    cell.changed = true
  end

  local function prepare()
    s[3] = min(s[3], per - 1)
    s[8] = max_wait > 0 and 0 or min(s[8], burst - 1)
    s[9] = max_wait > 0 and 0 or min(s[9], burst - 1 - s[8])
    if s[8] + s[9] > 0 then
      local stepped_back = max(s[6], s[7] * SECOND) - now > LAG
      for i = 9, 8, -1 do
        local over = stepped_back and now or (s[7] + 10 - i) * SECOND
        if over <= now and s[i] > 0 then
          spend(s[i], over)
          s[i] = 0
        end
      end
      s[5] = stepped_back and s[5] + 1 or s[5]
    end
    -- If the clock stepped back, a bucket that may owe units lacks what it lacked at its last charge.
    if borrow > 0 and s[6] - now > LAG then
      s[2], s[5], s[6] = max(s[2] - s[6] + now, 1), s[5] + 1, now
      cell.changed = true
    end
    local slack, slack_part = slack_of(us, per, unit)
    local debt, debt_part = scale(borrow, us, per)
    slack, slack_part = carried(slack + debt, slack_part + debt_part, per)
    local leased, leased_part = scale(s[8] + s[9], us, per)
    local over, over_part = carried(
      s[2] - now + leased - fill - max_wait - slack, s[3] + leased_part - fill_part - slack_part, per)
    if over > 0 or over == 0 and over_part > 0 then
      s[2], s[3] = carried(now + fill + max_wait + slack, fill_part + slack_part, per)
      s[5], s[6], s[8], s[9] = s[5] + 1, now, 0, 0
      cell.changed = true
    elseif starts_empty > 0 and s[2] + s[3] == 0 then
      spend(burst, now)
    end
  end

  -- A charge from before the rate changed has another stamp. Leases are units, whatever the rate.
  local function stamp()
    return s[5] % 65536 + s[16] % 65536 * 65536
  end

  return {
    prepare = prepare,
    step = function(cost)
      -- The furthest that full may be away.
      local leased = s[8] + s[9]
      local far, far_part = scale(leased, us, per)
      far, far_part = carried(fill + max_wait - far, fill_part - far_part, per)
      local outcome, wait, charged, booked = 0, 0, 0, max(s[2], now)
      -- How far full is beyond that after a cost of `more`.
      local function beyond(more)
        local span, part = scale(more, us, per)
        if s[2] >= now then
          -- Subtract first: an instant and two spans of 100 years add up to more than 2^53.
          span, part = span + (s[2] - now), part + s[3]
        end
        return carried(span - far, part - far_part, per)
      end
      if cost > capacity then
        outcome = 2
      elseif cost > 0 then
        local span, part = beyond(cost)
        wait = ceiled(span, part)
        if wait > 0 then
          outcome = 1
        else
          charged, wait = cost, max(0, ceiled(span + max_wait, part))
          spend(cost, now)
          s[6] = max(now, s[6])
        end
      end
      local span, part = beyond(0)
      span, part = carried(-span, -part, per)
      local remaining = span < 0 and 0 or tokens(span, part, us, per)
      local more = max(0, ceiled(beyond(min(remaining + 1, capacity - leased))))
      local full = max(0, ceiled(s[2] - now, s[3]))
      return {outcome, wait, remaining, more, full, charged, now, booked, s[4], stamp(), 0, 0, 0}
    end,

    charge = function(cost)
      local far, far_part = scale(burst + borrow - s[8] - s[9], us, per)
      if s[2] >= now then
        far, far_part = carried(far - s[2] + now, far_part - s[3], per)
      end
      cost = far < 0 and 0 or min(cost, tokens(far, far_part, us, per))
      if cost > 0 then
        spend(cost, now)
        s[6] = max(now, s[6])
      end
      return cost
    end,

    -- How long the units of a charge that stay charged take.
    kept = function(cost)
      return (scale(min(cost, capacity + borrow), us, per))
    end,

    refund = function(cost, at, booked, refunds, of)
      if of ~= stamp() then
        return
      end
      local span, part = scale(min(cost, capacity + borrow), us, per)
      local is_last = carried(s[2] - span, s[3] - part, per) == booked
      local above, above_part = carried(s[2] - now - fill, s[3] - fill_part, per)
      local waits = max_wait > 0 and (above > 0 or above == 0 and above_part > 0)
      if waits and not is_last then
        return
      end
      local no_refunds = refunds == s[4]
      -- What the bucket has gained meanwhile only because it was charged.
      local gained = max(0, max(now, s[6]) - (no_refunds and booked or at))
      if span >= gained then
        s[2], s[3] = carried(s[2] - span + gained, s[3] - part, per)
      end
      if not (no_refunds and is_last and gained == 0) then
        s[4] = s[4] + 1
      end
      cell.changed = true
    end,

    leasable = function()
      return max_wait > 0 and 0 or burst - 1 - s[8] - s[9], tokens(SECOND, 0, us, per)
    end,

    lease = function(part)
      local second = (now - now % SECOND) / SECOND
      if s[6] - now > LAG then
        s[5], s[6], s[7] = s[5] + 1, now, second
      elseif s[8] + s[9] == 0 then
        s[7] = second
      elseif s[7] < second then
        s[7], s[8], s[9] = second, 0, s[8]
      end
      s[6], s[8] = max(now, s[6]), s[8] + part
      cell.changed = true
      return generation(s[7], s[5]), (s[7] + 2) * SECOND - 750000 - now
    end,

    return_lease = function(of, used, left)
      for i = 8, 9 do
        if of == generation(s[7] + 8 - i, s[5]) then
          used = min(used, s[i])
          s[i] = max(0, s[i] - used - left)
          s[6] = max(now, s[6])
          spend(used, now)
        end
      end
    end,

    life = function()
      local leased = scale(s[8] + s[9], us, per)
      local from = leased > 0 and max(s[2], (s[7] + 2) * SECOND) or s[2]
      return max(from - now + leased, starts_empty * DAY)
    end,
  }
end

-- TB. Tokens come at the rate of the carried quota, until another quota charges the bucket or is
-- faster. See token_bucket.rs.
local function bucket(cell, s, us, per, burst, max_wait, starts_empty, unit)
  local numbers = {us, per, burst, max_wait, starts_empty, unit}
  local own = bucket_of(cell, s, unpack(numbers))

  -- The bucket of the carried quota, if this is another one.
  local function other()
    for i = 1, 6 do
      if s[9 + i] ~= numbers[i] then
        local is_quota = s[10] > 0 and s[10] <= WEEK and s[11] > 0 and s[11] < 2 ^ 32
          and s[12] > 0 and s[12] <= 1e9 and s[13] <= HOUR and s[14] < 2e9 + 2 and s[15] <= WEEK
          and (s[12] + s[14] / 2) * s[10] / s[11] <= CENTURY
        return is_quota and bucket_of(cell, s, unpack(s, 10, 15)) or nil
      end
    end
  end

  local function carry()
    for i = 1, 6 do
      s[9 + i] = numbers[i]
    end
  end

  -- Takes over what a prepared bucket of the carried quota lacks, at this rate and burst.
  local function take_over(us, per, burst)
    local their_us, their_per, their_burst = s[10], s[11], s[12]
    local span, part = max(0, s[2] - now), s[2] >= now and s[3] or 0
    -- If the bucket starts empty, the tokens that it holds are those that the actor saved.
    local more = starts_empty % 2 > 0 and burst - their_burst or 0
    span, part = converted(span, part, more, their_us, their_per, us, per)
    s[2], s[3] = carried(now + span, part, per)
    if s[2] < 1 then
      s[2], s[3] = 1, 0
    end
    if their_us ~= us or their_per ~= per or more ~= 0 then
      s[16] = s[16] + 1
    end
    -- A bucket that waits leases nothing, and none leases more than it holds.
    local leased = s[8] + s[9]
    if leased > 0 and (max_wait > 0 or leased >= burst) then
      span, part = scale(leased, us, per)
      s[2], s[3] = carried(s[2] + span, s[3] + part, per)
      s[5], s[8], s[9] = s[5] + 1, 0, 0
    end
  end

  local theirs = other()
  local prepared = theirs or own
  prepared.prepare()
  if s[10] == 0 and s[2] + s[3] > 0 then
    carry()
  end
  if theirs then
    -- Carries the faster rate; and a higher burst if the bucket saves tokens up to it.
    local is_faster = scale(us, s[11], per) < s[10]
    if is_faster or starts_empty % 2 > 0 and burst > s[12] then
      local both = is_faster and numbers or {unpack(s, 10, 15)}
      local most, wait, empty = max(burst, s[12]), max(max_wait, s[13]), max(starts_empty, s[14])
      take_over(both[1], both[2], most)
      s[10], s[11], s[12], s[13], s[14], s[15] = both[1], both[2], most, wait, empty, both[6]
      cell.changed = true
    end
  end

  local function present()
    return other() or own
  end

  -- What the bucket does as one of this quota. If it charges nothing, nothing changes.
  local function as_own(charge)
    local is_own = not other()
    local was, was_changed = {unpack(s)}, cell.changed
    if not is_own then
      take_over(us, per, burst)
    end
    if charge() > 0 then
      carry()
    elseif not is_own then
      restore(cell, was, was_changed)
      return false
    end
    return true
  end

  return {
    step = function(cost)
      local one
      local function charge()
        one = own.step(cost)
        return one[6]
      end
      if as_own(charge) then
        return one
      end
      -- Nothing is charged, so the missing tokens still come at the carried rate.
      local was, was_changed, their_us, their_per = {unpack(s)}, cell.changed, s[10], s[11]
      local wait = ceiled(converted(max_wait, 0, 0, us, per, their_us, their_per))
      take_over(their_us, their_per, burst)
      local looked = bucket_of(cell, s, their_us, their_per, burst, wait, starts_empty, unit).step(cost)
      restore(cell, was, was_changed)
      if one[1] == 1 and looked[1] == 1 then
        one[2] = looked[2]
      end
      one[4], one[5], one[8] = looked[4], looked[5], looked[8]
      return one
    end,

    charge = function(cost)
      as_own(function()
        return own.charge(cost)
      end)
    end,

    kept = function(cost)
      return present().kept(cost)
    end,

    refund = function(...)
      present().refund(...)
    end,

    leasable = function()
      if other() then
        return 0, 0
      end
      return own.leasable()
    end,

    lease = function(part)
      local generation, lasts = own.lease(part)
      carry()
      return generation, lasts
    end,

    return_lease = function(...)
      present().return_lease(...)
    end,

    life = function()
      return present().life()
    end,
  }
end

-- TB with warm_up. A value: when the bucket is full, us and part · refunds · cuts · latest instant ·
-- how cold the rule was at the first instant, plus the time to fill, us and part.
local function warming(cell, s, us, per, burst, warm_up, starts_empty, unit)
  local half, fill, fill_part = warm_up / 2, scale(burst, us, per)

  -- The difference of two, or zero.
  local function less(a, a_part, b, b_part)
    a, a_part = carried(a - b, a_part - b_part, per)
    if a < 0 then
      return 0, 0
    end
    return a, a_part
  end

  local function coldest(cold, part)
    if cold >= warm_up then
      return warm_up, 0
    end
    return cold, part
  end

  -- P of the formula, rounded down to 1/per us.
  local function potential(cold, part)
    local above = cold - half
    if above < 0 then
      return 0, 0
    end
    local whole, rest = scale(2 * above, above, warm_up)
    local ticks, a = scale(rest, per, warm_up)
    local more, b = scale(4 * above, part, warm_up)
    rest = a + b + scale(2 * part, part, per)
    return carried(whole, ticks + more + (rest - rest % warm_up) / warm_up, per)
  end

  -- How much of the time to fill so many units take.
  local function price(cost, cold, part)
    local span, rest = scale(cost, us, per)
    local from, from_part = potential(cold, part)
    local to, to_part = potential(less(cold, part, span, rest))
    return carried(span + from - to, rest + from_part - to_part, per)
  end

  s[3] = min(s[3], per - 1)
  local slack, slack_part = slack_of(us, per, unit)
  local is_ahead =
    ceiled(carried(s[2] - now - fill - slack, s[3] - fill_part - slack_part, per)) > 0
  if is_ahead then
    s[2], s[3] = carried(now + fill + slack, fill_part + slack_part, per)
    s[5], s[6] = s[5] + 1, now
  elseif starts_empty > 0 and s[2] + s[3] == 0 then
    s[2], s[3], is_ahead = now + fill, fill_part, true
  end
  if is_ahead then
    s[7], s[8], cell.changed = warm_up + fill, fill_part, true
  end

  return {
    step = function(cost)
      local full, part = s[2], s[3]
      local cold, cold_part = coldest(less(s[7], s[8], fill, fill_part))
      local idle = now - ceiled(full, part)
      if idle >= 0 then
        full, part = now, 0
        cold, cold_part = coldest(cold + idle, cold_part)
      end
      -- How far a bucket is beyond the furthest after a cost of `more`.
      local function beyond(more, from, from_part)
        local span, rest = price(more, cold, cold_part)
        -- Subtract first: an instant and two spans of 100 years add up to more than 2^53.
        return ceiled(carried(span - fill + (from - now), rest - fill_part + from_part, per))
      end
      local outcome, wait, charged, booked = 0, 0, 0, full
      if cost > burst or beyond(cost, now, 0) > 0 then
        -- Without other requests the rule only gets colder.
        outcome = 2
      elseif cost > 0 then
        wait = max(0, beyond(cost, full, part))
        if wait > 0 then
          outcome = 1
        else
          local span, rest = price(cost, cold, cold_part)
          full, part = carried(full + span, part + rest, per)
          span, rest = scale(cost, us, per)
          s[7], s[8] = carried(cold + fill - span, cold_part + fill_part - rest, per)
          cold, cold_part = less(cold, cold_part, span, rest)
          charged, s[2], s[3], s[6], cell.changed = cost, full, part, max(now, s[6]), true
        end
      end
      local room, rest = less(fill, fill_part, full - now, part)
      local remaining, most = 0, tokens(room, rest, us, per)
      while remaining < most do
        -- A warm unit takes one token.
        local middle = cold < half and most or math.ceil((remaining + most) / 2)
        if beyond(middle, full, part) > 0 then
          most = middle - 1
        else
          remaining = middle
        end
      end
      local more = beyond(remaining + 1, now, 0) > 0 and 0 or beyond(remaining + 1, full, part)
      full = ceiled(full - now, part)
      return {outcome, wait, remaining, more, full, charged, now, booked, s[4], s[5], 0, 0, 0}
    end,

    refund = function(cost, at, booked, refunds, cuts)
      if cuts ~= s[5] then
        return
      end
      cell.changed = true
      local span, part = scale(min(cost, burst), us, per)
      local before, before_part = carried(s[7] + span, s[8] + part, per)
      local cold, cold_part = coldest(less(before, before_part, fill, fill_part))
      local full, full_part = less(s[2], s[3], price(min(cost, burst), cold, cold_part))
      local no_refunds = refunds == s[4]
      if no_refunds and full == booked then
        s[2], s[3], s[7], s[8] = full, full_part, before, before_part
        return
      end
      -- What the bucket has gained meanwhile only because it was charged.
      local gained = max(0, max(now, s[6]) - (no_refunds and booked or at))
      cold, cold_part = coldest(less(s[7], s[8], fill, fill_part))
      s[2], s[3] = less(s[2], s[3], less(span, part, gained, 0))
      s[4], s[7], s[8] = s[4] + 1, carried(cold + span + fill, cold_part + part + fill_part, per)
    end,

    life = function()
      local cold = coldest(less(s[7], s[8], fill, fill_part))
      return max(s[2] - now + warm_up - cold, starts_empty * DAY)
    end,
  }
end

-- W. A value: window · used · cuts.
local function window(cell, s, rpu, unit, borrow)
  local current = (now - now % unit) / unit
  if s[2] > current and s[2] * unit - now > LAG then
    s[2], s[4] = current, s[4] + 1
    cell.changed = true
  end
  local function counting()
    if s[2] < current then
      return current, 0
    end
    return s[2], s[3]
  end

  local function put(at, used)
    s[2], s[3] = at, used
    cell.changed = true
  end

  local function step(cost)
    local at, used = counting()
    local outcome, wait, ends = 0, 0, (at + 1) * unit - now
    if cost > rpu then
      outcome, cost = 2, 0
    elseif cost > 0 and used + cost > rpu then
      outcome, wait, cost = 1, ends, 0
    elseif cost > 0 then
      used = used + cost
      put(at, used)
    end
    local full = used > 0 and ends or 0
    return {outcome, wait, max(rpu - used, 0), full, full, cost, now, at * unit, 0, s[4], 0, 0, 0}
  end

  local function take(cost, is_charged)
    if is_charged then
      put(s[2], max(0, s[3] - cost))
    end
  end

  return {
    step = step,
    charge = function(cost)
      local at, used = counting()
      cost = min(cost, rpu + borrow - used)
      if cost > 0 then
        put(at, used + cost)
      end
    end,
    refund = function(cost, at, booked, _, cuts)
      take(cost, booked == s[2] * unit and cuts == s[4])
    end,
    leasable = function()
      return rpu, 0
    end,
    lease = function(part)
      step(part)
      return generation(s[2], s[4]), (s[2] + 1) * unit - now
    end,
    return_lease = function(of, used, left)
      take(left, of == generation(s[2], s[4]))
    end,
    life = function()
      return (s[2] + 1) * unit - now
    end,
  }
end

-- SW. A value: newest slice · by how many slices it was moved · a count for each slice, at the
-- slice number modulo len.
local function ring(cell, s, limit, span, len, borrow)
  local function rescaled(number, from, to)
    local rest = number % from
    return (number - rest) / from * to, rest * to / from
  end
  local function slice_of(instant)
    local whole, rest = rescaled(instant, span, len)
    return whole + math.floor(rest)
  end
  local function begins(slice)
    local whole, rest = rescaled(slice, len, span)
    return whole + math.ceil(rest)
  end

  for i = 4, 3 + len do
    s[i] = s[i] or 0
  end
  local current = slice_of(now)
  if s[2] > current and begins(s[2]) - now > LAG then
    local by, counts = s[2] - current, {}
    for slice = s[2] - len + 1, s[2] do
      -- No slice is before the epoch.
      local at = 4 + max(0, slice - by) % len
      counts[at] = (counts[at] or 0) + s[4 + slice % len]
    end
    for i = 4, 3 + len do
      s[i] = counts[i] or 0
    end
    s[2], s[3] = current, (s[3] + by) % 2 ^ 32
    cell.changed = true
  end

  -- How long until so many requests have left the window, or all; and how many are in the window.
  local function until_left(cost)
    local sum, wait = 0, 0
    for slice = max(s[2], current) - len + 1, s[2] do
      local count = s[4 + slice % len]
      if count > 0 then
        if sum < cost then
          wait = slice
        end
        sum = sum + count
      end
    end
    return sum > 0 and max(0, begins(wait + len) - now) or 0, sum
  end

  local function add(cost, newest)
    for slice = max(s[2], newest - len) + 1, newest do
      s[4 + slice % len] = 0
    end
    local at = 4 + newest % len
    s[2], s[at] = newest, s[at] + cost
    cell.changed = true
  end

  local function step(cost)
    local outcome, wait, newest = 0, 0, max(s[2], current)
    local full, sum = until_left(huge)
    if cost > limit then
      outcome, cost = 2, 0
    elseif cost > 0 and sum + cost > limit then
      outcome, wait, cost = 1, (until_left(sum + cost - limit)), 0
    elseif cost > 0 then
      add(cost, newest)
      full, sum = until_left(huge)
    end
    local more = until_left(max(sum - limit, 0) + 1)
    return {outcome, wait, max(limit - sum, 0), more, full, cost, now, begins(newest), 0, s[3], 0, 0, 0}
  end

  local function take(cost, slice)
    if slice <= s[2] and s[2] - slice < len then
      local at = 4 + slice % len
      s[at] = max(0, s[at] - cost)
      cell.changed = true
    end
  end

  return {
    step = step,
    charge = function(cost)
      local _, sum = until_left(huge)
      cost = min(cost, limit + borrow - sum)
      if cost > 0 then
        add(cost, max(s[2], current))
      end
    end,
    refund = function(cost, at, booked, _, moved)
      if moved == s[3] then
        take(cost, slice_of(booked))
      end
    end,
    leasable = function()
      return limit, 0
    end,
    lease = function(part)
      step(part)
      return generation(s[2], s[3]), begins(s[2] + 1) - now
    end,
    return_lease = function(of, used, left)
      if of % 16 == s[3] % 16 then
        take(left, (of - of % 16) / 16)
      end
    end,
    life = function()
      return begins(s[2] + len) - now
    end,
  }
end

-- SL. A value: newest instant · cuts · the age of each request, newest first.
local function log(cell, s, rpu, unit)
  if s[2] - now > LAG then
    s[2], s[3] = now, s[3] + 1
    cell.changed = true
  end

  -- The instant from which ages count, and the ages at that instant.
  local function live()
    local ages, passed = {}, max(0, now - s[2])
    for i = 4, min(#s, 131) do
      if s[i] + passed < unit then
        ages[#ages + 1] = s[i] + passed
      end
    end
    return #ages > 0 and max(now, s[2]) or now, ages
  end

  local function keep(from, ages)
    s[2] = from
    for i = 1, max(#ages, #s - 3) do
      s[3 + i] = ages[i]
    end
    cell.changed = true
  end

  return {
    step = function(cost)
      local outcome, wait = 0, 0
      local from, ages = live()
      local function leaves_in(age)
        return age and from + unit - age - now or 0
      end
      local over = #ages + cost - rpu
      if cost > rpu then
        outcome, cost = 2, 0
      elseif cost > 0 and over > 0 then
        outcome, wait, cost = 1, leaves_in(ages[#ages - over + 1]), 0
      elseif cost > 0 then
        for i = #ages, 1, -1 do
          ages[i + cost] = ages[i]
        end
        for i = 1, cost do
          ages[i] = 0
        end
        keep(from, ages)
      end
      -- The instants above the quota, which another quota admitted, leave first.
      local more, full = leaves_in(ages[#ages - max(0, #ages - rpu)]), leaves_in(ages[1])
      return {outcome, wait, max(0, rpu - #ages), more, full, cost, now, from, 0, s[3], 0, 0, 0}
    end,

    refund = function(cost, at, booked, _, cuts)
      local from, ages = live()
      local kept, struck = {}, max(0, from - booked)
      for _, age in ipairs(ages) do
        if age == struck and cost > 0 then
          cost = cost - 1
        else
          kept[#kept + 1] = age
        end
      end
      if #kept < #ages and cuts == s[3] then
        keep(from, kept)
      end
    end,

    life = function()
      return s[2] + unit - now
    end,
  }
end

-- LB. A value: the next turn, us and part · cuts and new rows · the a to d of the last charge, which
-- are the carried quota; c is more by REFUNDED if the next turn does not follow the last one, because
-- that was refunded · which of the last turns were refunded; 0 is the turn before the next.
local function queue_of(cell, s, us, per, longest, longest_part, turns)

  local function refunds()
    local bits = {}
    for i = 9, #s do
      bits[s[i]] = true
    end
    return bits
  end

  -- Keeps the refunded turns, moved by so many places.
  local function keep(bits, by)
    for i = 9, #s do
      s[i] = nil
    end
    for bit in pairs(bits) do
      if bit + by >= 0 and bit + by < turns then
        s[#s + 1] = bit + by
      end
    end
    cell.changed = true
  end

  local function prepare()
    s[3] = min(s[3], per - 1)
    local token, token_part = scale(1, us, per)
    local over, over_part =
      carried(s[2] - now - longest - token - LAG, s[3] - longest_part - token_part, per)
    if over > 0 or over == 0 and over_part > 0 then
      s[2], s[3] = carried(now + longest + token + LAG, longest_part + token_part, per)
      s[4] = s[4] + 1
      keep({}, 0)
      s[5], s[6], s[7], s[8] = us, per, longest + REFUNDED, longest_part
    end
  end

  return {
    prepare = prepare,
    step = function(cost)
      local turn, part = s[2], s[3]
      if turn < now then
        turn, part = now, 0
      end
      -- How many requests would have turns within reach.
      local function places(turn, part)
        local span, rest = carried(now + longest - turn, longest_part - part, per)
        return span < 0 and 0 or tokens(span, rest, us, per) + 1
      end
      local function beyond(turn, part, more)
        local span, rest = scale(more, us, per)
        return max(0, ceiled(carried(turn + span - now - longest, part + rest - longest_part, per)))
      end
      local outcome, wait, charged = 0, 0, 0
      local capacity, next_turn, next_part = places(now, 0), turn, part
      if cost > capacity then
        outcome = 2
      elseif cost > places(turn, part) then
        outcome, wait = 1, beyond(turn, part, cost - 1)
      elseif cost > 0 then
        charged, wait = cost, ceiled(turn - now, part)
        next_turn, next_part = scale(cost, us, per)
        next_turn, next_part = carried(turn + next_turn, part + next_part, per)
        -- Turns follow closely until the queue is empty; then a new row begins.
        if s[9] or s[2] < turn then
          keep(s[2] < turn and {} or refunds(), cost)
        end
        s[2], s[3] = next_turn, next_part
        cell.changed = true
      end
      local remaining = places(next_turn, next_part)
      local more = remaining == capacity and 0 or beyond(next_turn, next_part, remaining)
      local full = ceiled(next_turn - now, next_part)
      return {outcome, wait, remaining, more, full, charged, now, turn, part, s[4], 0, 0, 0}
    end,

    refund = function(cost, at, turn, part, cuts)
      local span, rest = scale(cost, us, per)
      local gap, gap_part = carried(s[2] - turn - span, s[3] - part - rest, per)
      if cuts ~= s[4] or gap < 0 then
        return
      end
      local between = tokens(gap, gap_part, us, per)
      span, rest = scale(between, us, per)
      if span ~= gap or rest ~= gap_part then
        return
      end
      local bits = refunds()
      for bit = between, min(between + cost, turns) - 1 do
        bits[bit] = true
      end
      local last = between == 0 and cost or 0
      while bits[last] do
        last = last + 1
      end
      keep(bits, -last)
      span, rest = scale(last, us, per)
      s[2], s[3] = carried(s[2] - span, s[3] - rest, per)
      s[5], s[6], s[7], s[8] = us, per, longest + REFUNDED, longest_part
    end,

    life = function()
      return s[2] - now
    end,
  }
end

-- LB. The next turn comes as long after the last one as the faster of this quota and the carried one
-- says. See leaky_bucket.rs.
local function queue(cell, s, us, per, longest, longest_part, turns)
  local numbers = {us, per, longest, longest_part}
  local own = queue_of(cell, s, us, per, longest, longest_part, turns)

  -- The queue of the carried quota, if this is another one.
  local function other()
    for i = 1, 4 do
      if s[4 + i] % REFUNDED ~= numbers[i] then
        local is_quota = s[5] > 0 and s[5] <= WEEK and s[6] > 0 and s[6] < 2 ^ 32
          and s[7] % REFUNDED <= HOUR and s[8] < s[6]
        return is_quota and queue_of(cell, s, s[5], s[6], s[7] % REFUNDED, s[8], turns) or nil
      end
    end
  end

  local present = other() or own
  present.prepare()

  local function take_over()
    local mine, theirs = ceiled(scale(1, us, per)), scale(1, s[5], s[6])
    if s[5] ~= us or s[6] ~= per then
      local sooner = s[7] < REFUNDED and max(0, theirs - mine) or 0
      s[2], s[3] = max(0, ceiled(s[2], s[3]) - sooner), 0
      s[4] = s[4] + 1
      for i = 9, #s do
        s[i] = nil
      end
    end
  end

  return {
    step = function(cost)
      local was, was_changed, theirs = {unpack(s)}, cell.changed, other()
      if theirs then
        take_over()
      end
      local one = own.step(cost)
      if one[6] > 0 then
        for i = 1, 4 do
          s[4 + i] = numbers[i]
        end
      elseif theirs then
        restore(cell, was, was_changed)
      end
      return one
    end,

    refund = function(...)
      local present = other() or own
      present.refund(...)
    end,

    life = own.life,
  }
end

-- C, and gateways that live: each holds a permit. A value, for each holder of permits: its number · the number of its last call · its permits ·
-- when it reported, ms. A holder is a gateway's worker. Each query reports how many permits the
-- worker holds at most, without those that it requests in this call. The first query of a call sets
-- the count; later queries only add, as does a call that arrives late.
local function permits(cell, s, limit, holder, call, level, expire)
  local at, kept = (now - now % 1000) / 1000, 1
  for i = 2, #s - 3, 4 do
    -- A clock that has stepped back does not extend a report.
    local seen = min(s[i + 3], at)
    cell.changed = cell.changed or seen < s[i + 3]
    if (at - seen) * 1000 < expire then
      s[kept + 1], s[kept + 2], s[kept + 3], s[kept + 4] = s[i], s[i + 1], s[i + 2], seen
      kept = kept + 4
    end
  end
  for i = #s, kept + 1, -1 do
    s[i] = nil
    cell.changed = true
  end

  local function find()
    for i = 2, #s, 4 do
      if s[i] == holder then
        return i
      end
    end
  end
  local function put(i, number, count)
    s[i], s[i + 1], s[i + 2], s[i + 3] = holder, number, count, at
    cell.changed = true
  end

  local own = find()
  if level > 0 and (not own and #s < FULL or own and s[own + 1] < call) then
    put(own or #s + 1, call, level)
  elseif own and s[own + 1] < call then
    put(own, call, 0)
  end

  return {
    step = function(cost)
      local outcome, wait, sum, own = 0, 0, 0, find()
      for i = 4, #s, 4 do
        sum = sum + s[i]
      end
      if cost > limit then
        outcome, cost = 2, 0
      elseif cost > 0 and (sum + cost > limit or not own and #s >= FULL) then
        outcome, wait, cost = 1, SECOND, 0
      elseif cost > 0 then
        sum = sum + cost
        if own then
          s[own + 2] = s[own + 2] + cost
          cell.changed = true
        else
          put(#s + 1, call, cost)
        end
      end
      -- It is unknown when a permit returns.
      local more = sum > 0 and SECOND or 0
      return {outcome, wait, max(limit - sum, 0), more, more, cost, now, 0, 0, 0, 0, 0, 0}
    end,

    life = function()
      return expire
    end,
  }
end

-- A rule that refuses all requests has no value.
local function refuses_all()
  return {
    step = function(cost)
      return {cost > 0 and 2 or 0, 0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0}
    end,
  }
end

local function numbers(text)
  local all, count = {}, 0
  for number in text:gmatch('%d+') do
    count = count + 1
    all[count] = number + 0
  end
  return all
end

local cells, keys, used = {}, {}, 0

-- The cell of the next key, read once. A value of another kind counts as none.
local function next_cell(kind)
  used = used + 1
  local key = KEYS[used]
  local cell = cells[key]
  if not cell then
    cell = {}
    cells[key], keys[#keys + 1], cell.key = cell, key, key
    local value = kind > 0 and redis.pcall('GET', key)
    if type(value) == 'string' and #value < 60000 and value:match('^%d[%d ]+$') then
      cell.s = numbers(value)
      cell.is_foreign = #cell.s > MOST
      for _, number in ipairs(cell.s) do
        -- Far enough below 2^53 that a count of cuts stays below, too.
        cell.is_foreign = cell.is_foreign or number >= 9e15
      end
      if cell.s[1] == 9 and not cell.is_foreign then
        cell.penalty = {unpack(cell.s, 2, 5)}
        -- A value without more than a kind has only refusals.
        cell.s = #cell.s > 6 and {unpack(cell.s, 6)} or nil
        cell.is_foreign = #cell.penalty < 4
      end
    end
  end
  if cell.is_foreign or cell.s and cell.s[1] ~= kind then
    cell.s, cell.is_foreign, cell.penalty = nil, nil, nil
  end
  return cell
end

-- Prepares the rule of this cell. Its kind is number i of a command, and a to f start at number j.
local function rule(cell, v, i, j)
  local kind, a, b, c, d, e, f = v[i], unpack(v, j, j + 5)
  local s = cell.s or {kind}
  -- More numbers follow only as ages of a log, turns of a queue, or holders of permits.
  for n = 2, ({16, [4] = 3, [5] = 8, [7] = 1, [8] = 8, [10] = 1})[kind] or 4 do
    s[n] = s[n] or 0
  end
  cell.s = s
  if kind == 1 then
    cell.rule = bucket(cell, s, a, b, c, d, e, f)
  elseif kind == 2 then
    cell.rule = window(cell, s, a, b, c)
  elseif kind == 3 then
    cell.rule = ring(cell, s, a, b, c, d)
  elseif kind == 4 then
    cell.rule = log(cell, s, a, b)
  elseif kind == 5 then
    cell.rule = queue(cell, s, a, b, c, d, e)
  elseif kind == 7 or kind == 10 then
    cell.rule = permits(cell, s, a, c, d, e, f)
  elseif kind == 8 then
    cell.rule = warming(cell, s, a, b, c, d, e, f)
  else
    cell.rule = refuses_all()
  end
  return cell.rule
end

-- The rule with a penalty around it. See penalty.rs.
local function penalized(cell, inner, after, unit, lasts)
  local p = cell.penalty or {0, 0, 0, 0}
  cell.penalty = p
  if p[2] > 0 and p[1] - now > unit + LAG then
    p[1], cell.changed = now + unit, true
  end
  local length = p[4] > 0 and min(p[4], WEEK) or lasts
  if p[3] - now > length + LAG then
    p[3], cell.changed = now + length, true
  end

  -- A refusal by the quota, or a look, with the rest of a penalty on top.
  local function on_top(one, cost)
    local rest = p[3] - now
    if rest > 0 then
      if cost > 0 then
        one[1], one[2] = one[1] == 2 and 4 or 3, one[1] == 2 and 0 or max(one[2], rest)
      end
      one[3], one[4], one[5] = 0, max(rest, one[3] > 0 and 0 or one[4]), max(rest, one[5])
    end
    return one
  end

  return {
    step = function(cost)
      if p[3] <= now then
        return inner.step(cost)
      end
      local one = inner.step(0)
      return on_top(cost > one[3] and inner.step(cost) or one, cost)
    end,

    count_refusal = function(one)
      if one[1] ~= 1 and one[1] ~= 2 then
        return one
      end
      if after > 0 and p[3] <= now then
        if p[2] == 0 or p[1] <= now then
          p[1], p[2] = now + unit, 0
        end
        p[2], cell.changed = p[2] + 1, true
        if p[2] >= after then
          p[2], p[3], p[4] = 0, now + lasts, lasts
        end
      end
      return on_top(one, 1)
    end,
  }
end

-- The rule for a request that has to leave so many units. See headroom.rs.
local function with_headroom(cell, inner, units)
  local function without_headroom(one)
    one[3] = one[3] - units
    if one[3] < 0 then
      -- The headroom comes back first. A refused step changes nothing.
      one[3], one[4] = 0, inner.step(units + 1)[2]
    end
    return one
  end

  return {
    step = function(cost)
      if cost > 0 then
        local was, was_changed = {unpack(cell.s)}, cell.changed
        local one = inner.step(cost + units)
        if one[1] > 0 then
          return without_headroom(one)
        end
        restore(cell, was, was_changed)
      end
      return without_headroom(inner.step(cost))
    end,
    count_refusal = inner.count_refusal,
  }
end

-- Grants: see grant.rs. A grant has a key beside that of the count, and is read only if the quota
-- refuses. Its value is LEFT END.
local function grant_of(cell)
  local grant = cell.grant
  if not grant then
    grant = {left = 0, ends = 0}
    local value = redis.pcall('GET', cell.key .. ':g')
    local all = type(value) == 'string' and #value < 40 and numbers(value) or {}
    if #all == 2 and all[1] <= 1e9 and all[2] < 9e15 then
      grant.left, grant.ends = all[1], all[2]
    end
    cell.grant = grant
  end
  if grant.ends <= now then
    grant.left = 0
  end
  return grant
end

local function give(cell, left, ends)
  cell.grant = {left = left, ends = ends, changed = true}
end

-- The answer to a request that the quota refuses: a grant may pay all of it.
local function granted(cell, one, cost)
  local grant = grant_of(cell)
  if grant.left < max(cost, 1) then
    return one
  end
  give(cell, grant.left - cost, grant.ends)
  return {0, 0, one[3], one[4], one[5], cost, now, GRANTED, grant.ends, 0, 0, 0, 0}
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

-- One flat list of whole numbers for all queries, after the number of the command.
local reply = {ARGV[1] + 0}

local function decide(v)
  local first, count, at = {}, 0, 3
  local rules, owner, results, last = {}, {}, {}, {}
  for group = 1, v[2] do
    last[group] = count + v[at]
    at = at + 1
    while count < last[group] do
      count = count + 1
      owner[count] = next_cell(v[at])
      rules[count], first[count] = rule(owner[count], v, at, at + 4), at
      at = at + 10
      local flags = v[at - 9]
      if flags % 8 > 3 then
        rules[count] = penalized(owner[count], rules[count], unpack(v, at, at + 2))
        at = at + 3
      end
      if flags % 16 > 7 then
        rules[count] = with_headroom(owner[count], rules[count], v[at])
        at = at + 1
      end
    end
  end
  -- The state to restore if one rule refuses.
  local before, changed = {}, {}
  if count > 1 then
    for n = 1, count do
      before[n], changed[n] = {unpack(owner[n].s)}, owner[n].changed
    end
  end
  local is_refused, passes = false, true
  for n = 1, count do
    local i = first[n]
    local cell, peeks = owner[n], v[i + 1] % 4 > 1
    local was, was_changed = peeks and {unpack(cell.s)}, cell.changed
    local one = rules[n].step(peeks and 1 or v[i + 2])
    if peeks and one[1] < 1 then
      restore(cell, was, was_changed)
      one = rules[n].step(0)
    end
    if v[i + 1] > 15 and (one[1] == 1 or one[1] == 2) then
      one = granted(cell, one, v[i + 2])
    end
    results[n] = one
    is_refused = is_refused or v[i + 1] % 2 > 0 and one[1] > 0
    passes = passes and one[1] + one[2] == 0 and one[8] < GRANTED
  end
  if is_refused and count > 1 then
    for n = 1, count do
      restore(owner[n], before[n], changed[n])
    end
    for n = 1, count do
      if results[n][8] == GRANTED then
        correct_grant(owner[n], results[n][9], -results[n][6])
      end
      results[n] = results[n][1] > 0 and results[n] or rules[n].step(0)
    end
  end
  for n = 1, count do
    results[n] = rules[n].count_refusal and rules[n].count_refusal(results[n]) or results[n]
  end
  for group = 1, passes and v[2] or 0 do
    local from, part = (last[group - 1] or 0) + 1, huge
    for n = from, last[group] do
      local most, arriving = 0, 0
      if rules[n].leasable then
        most, arriving = rules[n].leasable()
      end
      local left = results[n][3]
      part = min(part, v[first[n] + 3], left, most, math.floor((left + arriving) / 8))
    end
    for n = from, part > 0 and last[group] or 0 do
      local one = results[n]
      one[11], one[12], one[13] = part, rules[n].lease(part)
      local left = rules[n].step(0)
      one[3], one[4], one[5] = left[3], left[4], left[5]
    end
  end
  for n = 1, count do
    for i = 1, 13 do
      reply[#reply + 1] = results[n][i]
    end
  end
end

-- Hands the numbers after its parameters to each rule. A rule without a value has nothing to
-- correct.
local function settle(v, size, how)
  for i = 3, 2 + v[2] * size, size do
    local cell = next_cell(v[i])
    if size == 12 and v[i + 9] == GRANTED then
      correct_grant(cell, v[i + 10], -v[i + 7])
    elseif cell.s then
      how(rule(cell, v, i, i + 1), unpack(v, i + 7, i + size - 1))
    end
  end
  reply[#reply + 1] = 0
end

local function refund(rule, cost, ...)
  if cost > 0 and rule.refund then
    rule.refund(cost, ...)
  end
end

local function return_lease(rule, ...)
  if rule.return_lease then
    rule.return_lease(...)
  end
end

-- Corrects each charge to a final cost. Only a charge of more makes a value.
local function correct(v)
  for i = 3, 2 + v[2] * 13, 13 do
    local cell, cost, at, booked, first, second, final = next_cell(v[i]), unpack(v, i + 7, i + 12)
    if booked == GRANTED then
      -- What the grant lacks, the quota owes.
      local owed = correct_grant(cell, first, final - cost)
      cost, final = 0, max(0, owed)
    end
    local one = (cell.s or final > cost) and rule(cell, v, i, i + 1)
    if one and one.charge and final > cost then
      one.charge(final - cost)
    elseif one and one.refund and final < cost then
      local kept = one.kept and one.kept(final) or 0
      one.refund(cost - final, at + kept, booked + kept, first, second)
    end
  end
  reply[#reply + 1] = 0
end

-- Both queries are about the same key.
local function inspect(v)
  local key, cell = KEYS[used + 1], next_cell(v[7])
  used = used - 1
  if v[2] == 1 then
    -- An empty value, because the user of Redis may be allowed only SET and GET.
    redis.call('SET', key, '', 'PX', 1)
    cell.s, cell.penalty, cell.changed = nil, nil, nil
    give(cell, 0, 0)
  elseif v[2] == 3 then
    give(cell, v[3], now + v[4])
  elseif v[2] == 2 and cell.penalty and cell.penalty[3] > now then
    cell.penalty[3], cell.penalty[4], cell.changed = 0, 0, true
  end
  decide({1, unpack(v, 5)})
  reply[#reply + 1] = cell.penalty and max(0, cell.penalty[3] - now) or 0
  local grant = grant_of(cell)
  reply[#reply + 1], reply[#reply + 2] = grant.left, grant.left > 0 and grant.ends - now or 0
end

for i = 2, #ARGV do
  local v = numbers(ARGV[i])
  if v[1] == 1 then
    decide(v)
  elseif v[1] == 2 then
    settle(v, 12, refund)
  elseif v[1] == 5 then
    correct(v)
  elseif v[1] == 6 then
    inspect(v)
  elseif v[1] == 4 then
    for i = 3, v[2] * 7 + 2, 7 do
      rule(next_cell(v[i]), v, i, i + 1)
    end
    reply[#reply + 1] = 0
  else
    settle(v, 10, return_lease)
  end
end
for _, key in ipairs(keys) do
  local cell = cells[key]
  local s, p = cell.s, cell.penalty
  if cell.changed then
    local life = max(0, cell.rule.life())
    -- Trailing zeros are dropped, except for ages, turns and holders.
    while s[#s] == 0 and s[1] < 4 do
      s[#s] = nil
    end
    if p and p[2] + p[3] > 0 then
      s, life = {9, p[1], p[2], p[3], p[4], unpack(s)}, max(life, p[2] > 0 and p[1] - now or 0, p[3] - now)
    end
    -- As long as the value matters, and five seconds more.
    life = math.ceil(life / 1000) + 5000
    redis.call('SET', key, ('%.0f '):rep(#s):format(unpack(s)), 'PX', life)
  end
  local grant = cell.grant
  if grant and grant.changed then
    local life = max(1, math.ceil((grant.ends - now) / 1000))
    redis.call('SET', key .. ':g', ('%.0f %.0f'):format(grant.left, grant.ends), 'PX', life)
  end
end
-- A probe has no commands. It fails on a Redis that is read-only or full.
if #ARGV == 1 then
  redis.call('SET', KEYS[1], 1, 'PX', 1000)
end
return reply
