package browser

import (
	"testing"
	"time"

	"waypost/client"
	"waypost/devstack/datadir"
	"waypost/signature"
)

// Gateway calls the gateway that the console calls, for what a test makes and looks at
// beside the pages.
type Gateway struct {
	t *testing.T
	c *client.Client
	// Receiver is the address of the demo's receiver: what a path below it answers is said
	// in its query (package receiver).
	Receiver string
}

// API is the gateway, as the demo's application.
func API(t *testing.T) Gateway {
	t.Helper()
	return gatewayOf(t, begun(t).profile)
}

func gatewayOf(t *testing.T, p datadir.Profile) Gateway {
	return Gateway{t, client.New(p.URL, signature.Key{AccessKey: p.AccessKey, SecretKey: p.SecretKey}), p.Receiver}
}

// Object is JSON.
type Object = map[string]any

// Do makes a call, and fails the test if it is refused.
func (g Gateway) Do(method, path string, body any) Object {
	g.t.Helper()
	answer := Object{}
	if err := g.c.Do(g.t.Context(), method, path, body, &answer); err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// Items are those of a list.
func (g Gateway) Items(path string) []any {
	g.t.Helper()
	items, _ := g.Do("GET", path, nil)["items"].([]any)
	return items
}

// Await waits until a list has so many items.
func (g Gateway) Await(path string, n int) {
	g.t.Helper()
	for until := time.Now().Add(pageTime); len(g.Items(path)) != n; time.Sleep(50 * time.Millisecond) { // between two looks
		if time.Now().After(until) {
			g.t.Fatalf("%s has %d items, want %d", path, len(g.Items(path)), n)
		}
	}
}

// Webhook makes a webhook that gives up after the first attempt.
func (g Gateway) Webhook(name, url string) string {
	g.t.Helper()
	return g.Do("POST", "/v1/webhooks", Object{"name": name, "url": url, "retry": Object{"maxAttempts": 1}})["id"].(string)
}

// Journey makes a published journey of these nodes.
func (g Gateway) Journey(name string, nodes ...Object) string {
	g.t.Helper()
	id := g.Do("POST", "/v1/journeys", Object{"name": name, "start": nodes[0]["id"], "nodes": nodes})["id"].(string)
	g.Do("POST", "/v1/journeys/"+id+"/publish", nil)
	return id
}

// Lead makes a lead, and returns its id as JSON has it.
func (g Gateway) Lead(fields Object) any {
	g.t.Helper()
	return g.Do("POST", "/v1/leads", Object{"businessParam": fields})["leadsId"]
}

// Enroll enrolls a lead, and returns the enrollment's id.
func (g Gateway) Enroll(journey string, lead any) string {
	g.t.Helper()
	return g.Do("POST", "/v1/journeys/"+journey+"/enrollments", Object{"leadsId": lead})["enrollmentId"].(string)
}

// Address is where the console is, without a slash at its end.
func Address(t *testing.T) string {
	t.Helper()
	return begun(t).console
}
