// Package schedule computes the times of a schedule. It is pure: no clock, no I/O but the time zone database.
//
// # Calendars
//
// A cron line and a Calendar are sets of civil times: what a clock on the wall shows, in a zone. A time t of the zone is in the schedule
// if what the clock shows at t is in one of the sets, and not in one of Except. Where the offset of the zone changes, a policy decides:
//
//	spring: civil times in the gap never occur   shift (default)  they count as later by the length of the gap: 02:30 is 03:30
//	                                             skip             they are left out
//	fall: civil times that occur twice           first (default)  the first occurrence counts
//	                                             last             the last does
//	                                             both             both do
//
// Times that coincide are one time, so that a schedule of every ten minutes has no double after a gap. With first and last such a
// schedule has none in one of the two hours; use both, or @every, which does not depend on the zone: its times are the multiples of
// the interval since 1970 in UTC.
package schedule
