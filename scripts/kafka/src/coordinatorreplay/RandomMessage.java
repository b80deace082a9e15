package coordinatorreplay;

import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Fills Kafka's generated messages at random. The message's schema says which fields a version has and which may be
 * null, its setters say of which Java type they are; fields of other versions keep their defaults, for Kafka refuses
 * to write them. Sizes and numbers are drawn where encodings change their shape: around 127 for compact lengths, at
 * the ends of integers.
 */
final class RandomMessage {
    private static final String[] ALPHABET = {
        "a", "Z", "0", "-", ".", " ", "\"", "\\", "/", "<", "\n", "\t", "\u0000", "\u001f", "\u007f", "\u0085",
        "é", "ß", "д", "\u2028", "漢", "\ufeff", "\ufffd", "\uffff", "🦀", "👩‍🚀"
    };
    private static final int[] LONG_SIZES = {126, 127, 128, 300};
    private static final int DEEPEST_LONG_ARRAY = 1;

    // Neighbouring seeds give unlike messages, which they would not with java.util.Random.
    private final SplittableRandom random;

    RandomMessage(long seed) {
        this.random = new SplittableRandom(seed);
    }

    <M extends Message> M fill(M message, short version) throws ReflectiveOperationException {
        Schema[] schemas = (Schema[]) message.getClass().getField("SCHEMAS").get(null);
        fillStruct(message, schemas[version], 0);
        return message;
    }

    private Message fillStruct(Message message, Schema schema, int depth) throws ReflectiveOperationException {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values()) {
                    // A field that is not set stays at its default, which is not written.
                    if (random.nextInt(3) > 0) {
                        set(message, field, depth);
                    }
                }
                addUnknownTags(message, tagged.fields().size());
            } else {
                set(message, bound.def, depth);
            }
        }
        return message;
    }

    /** Fields as a later release may add them; the message carries them along. */
    private void addUnknownTags(Message message, int firstFree) {
        // The next free tags are those that later releases use, and that our definitions may know already.
        int tag = firstFree + 8;
        while (random.nextInt(6) == 0) {
            tag += random.nextInt(150);
            message.unknownTaggedFields().add(new RawTaggedField(tag++, bytes()));
        }
    }

    private void set(Message message, Field field, int depth) throws ReflectiveOperationException {
        String name = "set" + Arrays.stream(field.name.split("_"))
            .map(word -> word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1))
            .collect(Collectors.joining());
        Method setter = Arrays.stream(message.getClass().getMethods())
            .filter(method -> method.getName().equals(name))
            .findFirst()
            .orElseThrow(() -> new NoSuchMethodException(message.getClass().getSimpleName() + "." + name));
        setter.invoke(message, draw(field.type, setter.getGenericParameterTypes()[0], depth));
    }

    private Object draw(Type type, java.lang.reflect.Type java, int depth) throws ReflectiveOperationException {
        if (type.isNullable() && random.nextInt(4) == 0) {
            return null;
        }
        if (type.isArray()) {
            java.lang.reflect.Type element = ((ParameterizedType) java).getActualTypeArguments()[0];
            List<Object> elements = new ArrayList<>();
            for (int left = arraySize(depth); left > 0; left--) {
                elements.add(draw(type.arrayElementType().orElseThrow(), element, depth + 1));
            }
            return elements;
        }
        if (type instanceof Schema schema) {
            Message struct = (Message) ((Class<?>) java).getConstructor().newInstance();
            return fillStruct(struct, schema, depth + 1);
        }
        return primitive(type, (Class<?>) java);
    }

    private Object primitive(Type type, Class<?> java) {
        if (type == Type.UINT16) {
            return number() & 0xffff;
        }
        return switch (java.getSimpleName()) {
            case "byte", "Byte" -> (byte) number();
            case "short", "Short" -> (short) number();
            case "int", "Integer" -> number();
            case "long", "Long" -> random.nextBoolean() ? (long) number() : edge(Long.MIN_VALUE, random.nextLong());
            case "String" -> text();
            case "byte[]" -> bytes();
            case "Uuid" -> random.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
            default -> throw new IllegalStateException("no way to draw a " + java + " for " + type);
        };
    }

    private int number() {
        return random.nextInt(3) > 0 ? random.nextInt(100) - 1 : (int) edge(Integer.MIN_VALUE, random.nextInt());
    }

    private long edge(long lowest, long otherwise) {
        return switch (random.nextInt(4)) {
            case 0 -> lowest;
            case 1 -> -(lowest + 1);
            default -> otherwise;
        };
    }

    private int size() {
        return random.nextInt(12) > 0 ? random.nextInt(10) : LONG_SIZES[random.nextInt(LONG_SIZES.length)];
    }

    /** Long arrays only near the root: nested ones would multiply. */
    private int arraySize(int depth) {
        int size = size();
        return depth > DEEPEST_LONG_ARRAY ? size % 3 : depth > 0 ? size % 10 : size;
    }

    private byte[] bytes() {
        byte[] bytes = new byte[size()];
        random.nextBytes(bytes);
        return bytes;
    }

    private String text() {
        return random.ints(size(), 0, ALPHABET.length).mapToObj(place -> ALPHABET[place]).collect(Collectors.joining());
    }
}
