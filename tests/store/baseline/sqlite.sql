CREATE TABLE meta (
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE TABLE partitions (
    partition INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    next_sequence BIGINT NOT NULL,
    dead_letters_pruned BIGINT NOT NULL,
    read_to_ms BIGINT NOT NULL,
    saved_ms BIGINT NOT NULL,
    PRIMARY KEY (partition)
);

CREATE TABLE history (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    segment TEXT NOT NULL,
    day_ms BIGINT NOT NULL,
    step_ms BIGINT NOT NULL,
    size INTEGER NOT NULL,
    points BLOB NOT NULL
);

CREATE INDEX history_by_series ON history (model, version, segment, day_ms, step_ms);

CREATE TABLE dead_letters (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    stored_ms BIGINT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    timestamp_ms BIGINT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    "key" BLOB,
    value BLOB,
    headers BLOB NOT NULL,
    CONSTRAINT dead_letters_by_offset UNIQUE (topic, partition, "offset")
);

CREATE INDEX dead_letters_by_reason ON dead_letters (reason, number);

CREATE TABLE refits (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    method TEXT NOT NULL,
    options TEXT NOT NULL,
    window_ms BIGINT,
    since_ms BIGINT,
    promote INTEGER NOT NULL,
    triggered_by TEXT NOT NULL,
    state TEXT NOT NULL,
    requested_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    started_ms BIGINT,
    finished_ms BIGINT,
    progress DOUBLE NOT NULL,
    step TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT,
    comparison TEXT,
    figures TEXT NOT NULL,
    baseline TEXT,
    owner TEXT,
    lease_until_ms BIGINT,
    idempotency_key TEXT,
    fingerprint TEXT NOT NULL,
    UNIQUE (id),
    UNIQUE (idempotency_key)
);

CREATE INDEX refits_by_model ON refits (model, number);

CREATE UNIQUE INDEX refits_under_way ON refits (model) WHERE state IN ('queued', 'running');

CREATE TABLE servings (
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    revision BIGINT NOT NULL,
    map_id TEXT,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT,
    goes_back_to BIGINT,
    from_ms BIGINT NOT NULL,
    PRIMARY KEY (model, version, revision)
);

CREATE UNIQUE INDEX servings_now ON servings (model, version) WHERE until_ms IS NULL;

CREATE TABLE refit_schedules (
    model TEXT NOT NULL,
    expression TEXT NOT NULL,
    handled_ms BIGINT NOT NULL,
    PRIMARY KEY (model)
);

CREATE TABLE audit (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE INDEX audit_by_model ON audit (model, number);

CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL,
    grants TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT,
    PRIMARY KEY (key_id)
);

CREATE UNIQUE INDEX api_keys_by_name ON api_keys (name) WHERE revoked_ms IS NULL;

CREATE TABLE replicas (
    id TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    roles TEXT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE evaluations (
    model TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    number BIGINT NOT NULL,
    evaluated_ms BIGINT NOT NULL,
    summary BLOB NOT NULL,
    watermark_ms BIGINT NOT NULL,
    edge_ms BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (model)
);

CREATE TABLE evaluated_reports (
    model TEXT NOT NULL,
    number BIGINT NOT NULL,
    reports BLOB NOT NULL,
    PRIMARY KEY (model)
);

CREATE TABLE evaluated_moments (
    model TEXT NOT NULL,
    watermark_ms BIGINT NOT NULL,
    before_to_ms BIGINT NOT NULL,
    edge_ms BIGINT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (model, watermark_ms)
);

CREATE TABLE alerts (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    is_current INTEGER NOT NULL,
    pending_ms BIGINT NOT NULL,
    firing_ms BIGINT,
    raised_ms BIGINT,
    muted_until_ms BIGINT,
    resolved_ms BIGINT,
    acknowledged_by TEXT,
    assigned_to TEXT,
    reason TEXT,
    finding TEXT NOT NULL,
    document TEXT NOT NULL,
    UNIQUE (id)
);

CREATE INDEX alerts_by_model ON alerts (model, number);

CREATE INDEX alerts_current ON alerts (model, version) WHERE is_current = 1;

CREATE TABLE webhooks (
    name TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    owner TEXT NOT NULL,
    until_ms BIGINT NOT NULL,
    attempts INTEGER NOT NULL,
    due_ms BIGINT NOT NULL,
    error TEXT,
    PRIMARY KEY (name)
);

CREATE TABLE evidence (
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    to_ms BIGINT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (model, version)
);

CREATE TABLE evidence_history (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    day_ms BIGINT NOT NULL,
    step_ms BIGINT NOT NULL,
    size INTEGER NOT NULL,
    points BLOB NOT NULL,
    peaks BLOB NOT NULL
);

CREATE INDEX evidence_history_by_series ON evidence_history (model, version, day_ms, step_ms);

CREATE INDEX evidence_history_by_day ON evidence_history (day_ms);

CREATE TABLE offsets (
    partition INTEGER NOT NULL,
    topic TEXT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (partition, topic),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE models (
    partition INTEGER NOT NULL,
    name TEXT NOT NULL,
    prediction_watermark_ms BIGINT NOT NULL,
    outcome_watermark_ms BIGINT NOT NULL,
    closed_to_ms BIGINT NOT NULL,
    awaits_outcomes INTEGER NOT NULL,
    saved_ms BIGINT NOT NULL,
    PRIMARY KEY (partition, name),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE strata (
    partition INTEGER NOT NULL,
    stratum_id INTEGER NOT NULL,
    model TEXT NOT NULL,
    version TEXT NOT NULL,
    segments TEXT NOT NULL,
    newest_ms BIGINT NOT NULL,
    PRIMARY KEY (partition, stratum_id),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE journal (
    partition INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    model TEXT NOT NULL,
    bucket_ms BIGINT NOT NULL,
    size INTEGER NOT NULL,
    rows BLOB NOT NULL,
    PRIMARY KEY (partition, sequence),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE INDEX journal_by_bucket ON journal (partition, model, bucket_ms, sequence, size);

CREATE TABLE closings (
    partition INTEGER NOT NULL,
    model TEXT NOT NULL,
    to_ms BIGINT NOT NULL,
    from_ms BIGINT NOT NULL,
    pane_ms BIGINT NOT NULL,
    cells BLOB NOT NULL,
    sketches BLOB,
    PRIMARY KEY (partition, model, to_ms),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE unsettled (
    partition INTEGER NOT NULL,
    cells BLOB NOT NULL,
    sketches BLOB,
    PRIMARY KEY (partition),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE sample_candidates (
    partition INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    model TEXT NOT NULL,
    bucket_ms BIGINT NOT NULL,
    rows BLOB NOT NULL,
    PRIMARY KEY (partition, sequence),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE INDEX sample_candidates_by_bucket ON sample_candidates (partition, model, bucket_ms);

CREATE TABLE closed_samples (
    partition INTEGER NOT NULL,
    model TEXT NOT NULL,
    slide_ms BIGINT NOT NULL,
    start_ms BIGINT NOT NULL,
    version TEXT NOT NULL,
    segment TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    size INTEGER NOT NULL,
    sample BLOB NOT NULL,
    PRIMARY KEY (partition, model, slide_ms, start_ms, version, segment, sequence),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE INDEX closed_samples_by_version ON closed_samples (model, version);

CREATE TABLE caps (
    partition INTEGER NOT NULL,
    setting TEXT NOT NULL,
    model TEXT NOT NULL,
    segment_key TEXT NOT NULL,
    used INTEGER NOT NULL,
    allowed INTEGER NOT NULL,
    folded BIGINT NOT NULL,
    newest_ms BIGINT NOT NULL,
    PRIMARY KEY (partition, setting, model, segment_key),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE counters (
    partition INTEGER NOT NULL,
    type TEXT NOT NULL,
    result TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (partition, type, result),
    FOREIGN KEY(partition) REFERENCES partitions (partition)
);

CREATE TABLE recalibration_maps (
    id TEXT NOT NULL,
    artifact BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES refits (id)
);

CREATE TABLE refit_figures (
    refit TEXT NOT NULL,
    name TEXT NOT NULL,
    document BLOB NOT NULL,
    PRIMARY KEY (refit, name),
    FOREIGN KEY(refit) REFERENCES refits (id)
);

CREATE TABLE alert_changes (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    alert TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    actor TEXT NOT NULL,
    note TEXT NOT NULL,
    FOREIGN KEY(alert) REFERENCES alerts (id)
);

CREATE INDEX alert_changes_by_alert ON alert_changes (alert, number);

CREATE TRIGGER audit_refuses_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are never changed'); END;

CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are never changed'); END;

CREATE TRIGGER recalibration_maps_refuses_update BEFORE UPDATE ON recalibration_maps BEGIN SELECT RAISE(ABORT, 'rows of recalibration_maps are never changed'); END;

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO alembic_version (version_num) VALUES ('baseline') RETURNING version_num;
