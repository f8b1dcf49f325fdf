package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
)

// pausedAction is an action that an operator has paused.
type pausedAction struct {
	Action string
	api.Policy
}

// pausedActions separates the pauses of actions from the other policies, because they have no policy form.
func pausedActions(all []api.LevelPolicy) (paused []pausedAction, others []api.LevelPolicy) {
	for _, l := range all {
		if action, is := strings.CutPrefix(l.Level, "pause:"); is {
			paused = append(paused, pausedAction{action, l.Policy})
		} else {
			others = append(others, l)
		}
	}
	return paused, others
}

// choosePause redirects from the name of an action to the page that pauses it. Actions without a limit are in no list.
func choosePause(q *request) (view, error) {
	action := strings.TrimSpace(q.FormValue("action"))
	if action == "" {
		return view{}, &apiError{Status: http.StatusBadRequest, Detail: "Name the activity or the orchestration."}
	}
	return view{redirect: actionPath(action) + "/pause"}, nil
}

func actionPath(action string) string { return "/limits/" + url.PathEscape(action) }

func pauseActionForm(q *request) (view, error) {
	action := q.PathValue("action")
	return confirmation(confirmData{
		Section: "limits", Title: "Pause " + action, Back: "/limits", Button: "Pause the action", Mild: true,
		Effects: []string{
			"No call of the activity, or start of the orchestration, is admitted until it is resumed. Waiters keep their places.",
			"Calls and starts that were already admitted continue.",
			"Waiters fail after the maximum wait of the policy, or after one hour if the policy has none.",
		},
		Command: "pawl pause --action " + shellQuote(action) + " --reason '…'",
		Fields:  []field{{Name: "reason", Label: "Reason (shown while the action is paused)"}},
	}), nil
}

func resumeActionForm(q *request) (view, error) {
	action := q.PathValue("action")
	return confirmation(confirmData{
		Section: "limits", Title: "Resume " + action, Back: "/limits", Button: "Resume the action", Mild: true,
		Effects: []string{"Waiters are admitted in their order, as the policy of the action allows."},
		Command: "pawl resume --action " + shellQuote(action) + " --reason '…'",
		Fields:  []field{{Name: "reason", Label: "Reason (logged)"}},
	}), nil
}

// commandAction pauses or resumes an action.
func commandAction(verb string) func(*request) (view, error) {
	return func(q *request) (view, error) {
		body := map[string]string{"reason": q.PostFormValue("reason")}
		err := q.call(http.MethodPost, "/actions/"+url.PathEscape(q.PathValue("action"))+"/"+verb, nil, body, nil)
		return view{redirect: "/limits"}, err
	}
}
