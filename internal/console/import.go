package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
)

// maxImportMemory exceeds the maximum body size of the server, so no part of a form is written to a file.
const maxImportMemory = 4 << 20

// importData is the form that imports an instance.
type importData struct {
	ID, Export, Reason, Problem string
	Continue                    bool
}

func (d importData) view(status int) view {
	return view{template: "import", title: "Import an instance", section: "instances", status: status, data: d}
}

func importForm(*request) (view, error) { return importData{}.view(0), nil }

// importInstance creates an instance from an export, which is a file or a text. An invalid form is shown again, without the
// file.
func importInstance(q *request) (view, error) {
	if err := q.ParseMultipartForm(maxImportMemory); err != nil {
		return view{}, importProblem(err)
	}
	d := importData{
		ID: strings.TrimSpace(q.PostFormValue("id")), Export: q.PostFormValue("export"), Reason: q.PostFormValue("reason"),
		Continue: q.PostFormValue("continue") != "",
	}
	export, err := q.export(d.Export)
	if err != nil {
		return view{}, err
	}
	switch {
	case d.ID == "":
		d.Problem = "Give the instance an id that is unused."
	case len(export) == 0:
		d.Problem = "Choose a file that pawl export has written, or paste its text."
	case !json.Valid(export):
		d.Problem = "The export is not JSON. It is what pawl export writes."
	}
	if d.Problem != "" {
		return d.view(http.StatusBadRequest), nil
	}
	body := map[string]any{"export": json.RawMessage(export), "continue": d.Continue, "reason": d.Reason}
	var got api.Operated
	err = q.call(http.MethodPost, instancePath(d.ID)+"/import", nil, body, &got)
	if err == nil {
		return view{redirect: instancePath(d.ID)}, nil
	}
	e := problemOf(err)
	if e.Status >= http.StatusInternalServerError {
		return view{}, err
	}
	d.Problem = e.Detail
	return d.view(e.Status), nil
}

// export returns the uploaded file, or the pasted text if there is none.
func (q *request) export(pasted string) ([]byte, error) {
	f, _, err := q.FormFile("file")
	if err == nil {
		defer func() { _ = f.Close() }()
		b, err := io.ReadAll(f)
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
	return []byte(strings.TrimSpace(pasted)), nil // browsers send an empty file if none was chosen
}

// importProblem returns the problem of a form that could not be read.
func importProblem(err error) *apiError {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return &apiError{Status: http.StatusRequestEntityTooLarge, Detail: "The export has more than 1 MiB.", Do: "Import it with pawl import ID FILE, which takes 4 MiB."}
	}
	return &apiError{Status: http.StatusBadRequest, Detail: "The form cannot be read: " + err.Error()}
}
