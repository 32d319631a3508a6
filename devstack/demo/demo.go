// Package demo shows what Waypost does, as a client would: through the signed
// HTTP interface.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"waypost"
	"waypost/client"
)

// Names by which the demo's data is found again.
const (
	WebhookName = "Demo receiver"
	JourneyName = "Welcome"
)

// Data is the demo's data.
type Data struct {
	WebhookID string  `json:"webhookId"`
	JourneyID string  `json:"journeyId"`
	LeadsIDs  []int64 `json:"leadsIds"`
	TenantID  string  `json:"tenantId"` // the site of its articles
}

// Hook is where the demo webhook points.
type Hook struct {
	URL, User, Password string
}

// Prepare makes the missing part of the demo's data: a webhook, a published journey, leads
// and articles. known is the data of a former start; nothing is made twice, also if that
// start was killed. added tells whether anything was made.
func Prepare(ctx context.Context, c *client.Client, known Data, hook Hook) (d Data, added bool, err error) {
	d = known
	for _, prepare := range []func(context.Context, *client.Client, *Data) (made bool, err error){
		hook.prepareWebhook, prepareJourney, prepareArticles, prepareLeads,
	} {
		made, err := prepare(ctx, c, &d)
		if err != nil {
			return d, added, err
		}
		added = added || made
	}
	return d, added, nil
}

type webhook struct {
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name"`
	URL       string         `json:"url"`
	BasicAuth *basicAuth     `json:"basicAuth,omitempty"`
	Params    map[string]any `json:"params,omitempty"`
}

type basicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (hook Hook) prepareWebhook(ctx context.Context, c *client.Client, d *Data) (made bool, err error) {
	found, err := find(ctx, c, "/v1/webhooks", d.WebhookID, func(w webhook) bool { return w.Name == WebhookName })
	if err != nil {
		return false, err
	}
	auth := &basicAuth{hook.User, hook.Password}
	if found == nil {
		w := webhook{Name: WebhookName, URL: hook.URL, BasicAuth: auth, Params: map[string]any{"campaign": "welcome", "channel": "demo"}}
		if err := c.Do(ctx, http.MethodPost, "/v1/webhooks", w, &w); err != nil {
			return false, err
		}
		d.WebhookID = w.ID
		return true, nil
	}
	d.WebhookID = found.ID
	if found.URL == hook.URL {
		return false, nil
	}
	// The receiver moved to another port: messages that are still to come must find it.
	change := map[string]any{"url": hook.URL, "basicAuth": auth}
	return false, c.Do(ctx, http.MethodPatch, "/v1/webhooks/"+found.ID, change, nil)
}

type journey struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	PublishedVersion int    `json:"publishedVersion"`
}

func prepareJourney(ctx context.Context, c *client.Client, d *Data) (made bool, err error) {
	found, err := find(ctx, c, "/v1/journeys", d.JourneyID, func(j journey) bool { return j.Name == JourneyName })
	if err != nil {
		return false, err
	}
	if found == nil {
		found = &journey{}
		if err := c.Do(ctx, http.MethodPost, "/v1/journeys", definition(d.WebhookID), found); err != nil {
			return false, err
		}
	}
	d.JourneyID = found.ID
	if found.PublishedVersion > 0 {
		return false, nil
	}
	return true, c.Do(ctx, http.MethodPost, "/v1/journeys/"+found.ID+"/publish", nil, nil)
}

// find returns the object that a former start made: by its id, or by same if that start was
// killed before it noted the id; nil if there is none.
func find[T any](ctx context.Context, c *client.Client, path, id string, same func(T) bool) (*T, error) {
	if id != "" {
		var one T
		err := c.Do(ctx, http.MethodGet, path+"/"+id, nil, &one)
		if err == nil {
			return &one, nil
		}
		if waypost.CodeOf(err) != waypost.CodeNotFound {
			return nil, err
		}
	}
	for cursor := ""; ; {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"nextCursor"`
		}
		if err := c.Do(ctx, http.MethodGet, path+"?limit=500"+cursor, nil, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if same(page.Items[i]) {
				return &page.Items[i], nil
			}
		}
		if page.NextCursor == "" {
			return nil, nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

type lead struct {
	Name         string         `json:"name"`
	ExternalID   string         `json:"externalId"`
	MobilePhone  []string       `json:"mobilePhone"`
	Email        string         `json:"email"`
	Gender       int            `json:"gender"`
	CustomFields map[string]any `json:"customFields"`
}

// The leads are invented; the numbers are among those that Australia's regulator
// keeps free for films and books, the addresses of a domain reserved for examples.
var leads = []lead{
	{Name: "Lin Xiaomei", ExternalID: "demo-1", MobilePhone: []string{"+61491570156"}, Email: "lin.xiaomei@example.com", Gender: 2, CustomFields: map[string]any{"city": "Hangzhou"}},
	{Name: "Amara Bello", ExternalID: "demo-2", MobilePhone: []string{"+61491570157"}, Email: "amara.bello@example.com", Gender: 2, CustomFields: map[string]any{"city": "Lagos"}},
	{Name: "Jonas Falk", ExternalID: "demo-3", MobilePhone: []string{"+61491570158"}, Email: "jonas.falk@example.com", Gender: 1, CustomFields: map[string]any{"city": "Bergen"}},
}

func prepareLeads(ctx context.Context, c *client.Client, d *Data) (made bool, err error) {
	if len(d.LeadsIDs) == len(leads) {
		return false, nil
	}
	d.LeadsIDs = nil
	for _, l := range leads {
		id, added, err := prepareLead(ctx, c, l)
		if err != nil {
			return made, err
		}
		d.LeadsIDs = append(d.LeadsIDs, id)
		made = made || added
	}
	return made, nil
}

var digits = regexp.MustCompile(`\d+`)

// prepareLead makes a lead, or finds the id of the one that is already there:
// the Conflict answer's detail names it.
func prepareLead(ctx context.Context, c *client.Client, l lead) (id int64, made bool, err error) {
	var answer struct {
		LeadsID int64 `json:"leadsId"`
	}
	err = c.Do(ctx, http.MethodPost, "/v1/leads", map[string]any{"businessParam": l}, &answer)
	var e *waypost.Error
	if errors.As(err, &e) && e.Code == waypost.CodeConflict {
		for _, d := range e.Details {
			if id, err := strconv.ParseInt(digits.FindString(d.Message), 10, 64); err == nil {
				return id, false, nil
			}
		}
	}
	return answer.LeadsID, true, err
}

// Enrollment is what enrolling answers.
type Enrollment struct {
	ID          string `json:"enrollmentId"`
	TemporalURL string `json:"temporalUrl"`
}

// Enroll starts the journey for the demo's first lead. running tells that its
// former enrollment has not ended: the journey's re-entry policy then allows no
// other one.
func Enroll(ctx context.Context, c *client.Client, d Data) (e Enrollment, running bool, err error) {
	err = c.Do(ctx, http.MethodPost, "/v1/journeys/"+d.JourneyID+"/enrollments", map[string]any{"leadsId": d.LeadsIDs[0]}, &e)
	if waypost.CodeOf(err) == waypost.CodeConflict {
		return e, true, nil
	}
	return e, false, err
}

// Delivery is a delivered message, as GET /v1/deliveries/{messageId} shows it.
type Delivery struct {
	MessageID  string                 `json:"messageId"`
	NodeID     string                 `json:"nodeId"`
	Status     waypost.DeliveryStatus `json:"status"`
	Message    string                 `json:"message"`
	HTTPStatus int                    `json:"httpStatus"`
	DurationMs int64                  `json:"durationMs"`
	AttemptLog []waypost.Attempt      `json:"attemptLog"`
	Request    json.RawMessage        `json:"request"`
}

// pollPause is the time between two looks at the deliveries.
const pollPause = 50 * time.Millisecond

// Await waits until the touchpoint of an enrollment is decided, and returns its
// delivery.
func Await(ctx context.Context, c *client.Client, enrollmentID, nodeID string) (Delivery, error) {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for last := waypost.DeliveryStatus("not sent yet"); ; {
		var list struct{ Items []Delivery }
		if err := c.Do(ctx, http.MethodGet, "/v1/deliveries?enrollmentId="+enrollmentID, nil, &list); err != nil && ctx.Err() == nil {
			return Delivery{}, err
		}
		for _, d := range list.Items {
			if d.NodeID != nodeID {
				continue
			}
			if last = d.Status; last.Final() {
				err := c.Do(ctx, http.MethodGet, "/v1/deliveries/"+d.MessageID, nil, &d)
				return d, err
			}
		}
		select {
		case <-ctx.Done():
			return Delivery{}, fmt.Errorf("wait for the delivery of %s (%s): %w", nodeID, last, ctx.Err())
		case <-tick.C:
		}
	}
}

// Hello is the demo journey's first touchpoint.
const Hello = "hello"

func definition(webhookID string) map[string]any {
	touchpoint := func(id, next string, params map[string]any) map[string]any {
		return map[string]any{"id": id, "type": "touchpoint", "webhook": webhookID, "params": params, "next": next}
	}
	return map[string]any{
		"name":  JourneyName,
		"start": Hello,
		"nodes": []map[string]any{
			touchpoint(Hello, "pause", map[string]any{"greeting": "Hello {{ lead.name }}"}),
			{"id": "pause", "type": "delay", "for": "2s", "next": "heard"},
			{"id": "heard", "type": "branch", "otherwise": "sorry",
				"cases": []map[string]any{{"when": "touchpoints.hello.succeed", "next": "thanks"}}},
			touchpoint("thanks", "end", map[string]any{"greeting": "Thank you {{ lead.name }}"}),
			touchpoint("sorry", "end", map[string]any{"greeting": "Sorry that we missed you, {{ lead.name }}"}),
			{"id": "end", "type": "exit"},
		},
	}
}
