// Package schedule computes the times of a schedule. It is pure: it has no clock, and no I/O but the time zone database.
//
// # Calendars
//
// A cron line and a Calendar are sets of civil times, as shown by a wall clock in a zone. A time t is in the schedule if the civil time
// at t is in one of the sets and not in one of Except. Where the offset of the zone changes, a policy decides:
//
//	spring: civil times in the gap never occur   shift (default)  they are moved later by the length of the gap: 02:30 becomes 03:30
//	                                             skip             they are omitted
//	fall: civil times that occur twice           first (default)  only the first occurrence counts
//	                                             last             only the last occurrence counts
//	                                             both             both occurrences count
//
// Equal times count once, so a schedule of every ten minutes has no duplicate after a gap. With first and last, such a schedule has no
// times in one of the two hours; use both, or @every, which does not depend on the zone: its times are the multiples of the interval
// since 1970 in UTC.
package schedule
