package org.apache.spark.kafka010;

import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Lets no setting into a log. */
public final class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    private KafkaRedactionUtil$() {}

    @SuppressWarnings("unchecked")
    public Seq<Object> redactParams(Seq<Object> settings) {
        return (Seq<Object>) (Seq<?>) Nil$.MODULE$;
    }
}
