// Package exec runs external programs in activities. Command returns a Cmd, and Cmd.Run starts the program, waits for it, and ends it
// when the activity's context is done.
//
//	out, err := exec.Command("ffmpeg", "-i", film, to).Run(ctx)
//
// # How a program ends
//
//	runs ──by itself──▶ code 0: Output                           ─┐
//	  │                 otherwise: *ExitError                     │ then the rest of its
//	context done                                                  ├ process group is killed
//	  └──SIGTERM to the group──▶ the whole group has ended, or    │
//	     the grace period is nearly over──▶ the context's cause  ─┘
//
// A program and all processes that it starts form one process group. Run returns when none of them is left, with these exceptions:
//
//   - A process that leaves the group (setsid, a daemon) is neither signalled nor waited for, even if it holds the output open.
//   - A process in an uninterruptible system call (a dead NFS server) ends later: Run waits one second for it.
//   - Windows has neither groups nor SIGTERM: the program is killed at once, without its children.
//
// Run uses the activity's grace period (pawl.ActivityInfo.Grace) minus a tenth of it, but at most one second less, so that it returns
// before the activity would be abandoned. Without an activity, the grace period is pawl.DefaultGrace. pawl.GraceExpired ends it early.
//
// # If the worker dies
//
// A worker that is killed (kill -9, out of memory) cannot clean up. On Linux, the kernel then kills the program by means of its
// parent-death signal. The kernel sends that signal when the thread that started the program ends, not the process, so Run starts the
// program on a thread that it keeps until the program has ended. This does not cover the children of the program (they do not receive the
// signal and should end with their parent), a program that is setuid or has file capabilities (the kernel drops the signal), and systems
// other than Linux. A supervisor that kills the whole cgroup, such as systemd or a container runtime, covers all of these.
package exec
